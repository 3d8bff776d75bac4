package tenure_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"tenure.example/tenure"
)

// One process leads, and writes a file through its fence.
func Example() {
	folder, err := os.MkdirTemp("", "tenure")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	report := tenure.FileFence(filepath.Join(folder, "report.txt"))
	if err := os.WriteFile(string(report), nil, 0o600); err != nil {
		log.Fatal(err)
	}

	t, err := tenure.Open("sqlite:"+filepath.Join(folder, "tenure.db"), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = t.Close() }()
	term, err := t.Campaign(context.Background(), "report", &tenure.CampaignOptions{
		Wait:   30 * time.Second,
		Fences: []tenure.Fence{report},
	})
	if err != nil {
		log.Fatal(err) // Another process leads; the error says which.
	}
	for step := 1; step <= 3 && term.Context().Err() == nil; step++ {
		line := fmt.Sprintf("step %d\n", step)
		if err := report.Append(term.Context(), term.Token(), []byte(line)); err != nil {
			log.Fatal(err) // tenure.ErrStale: a later leader exists.
		}
	}
	if err := term.Close(); err != nil {
		log.Print(err)
	}
	text, _ := os.ReadFile(string(report))
	fmt.Printf("%stoken %d, %s\n", text, term.Number(), term.Reason())
	// Output:
	// step 1
	// step 2
	// step 3
	// token 1, released
}
