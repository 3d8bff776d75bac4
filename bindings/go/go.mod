module tenure.local/tenure

go 1.19
