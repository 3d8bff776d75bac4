module tenure.example/tenure

go 1.19
