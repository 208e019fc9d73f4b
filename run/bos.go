package run

import (
	"fmt"

	"olmes/engine"
	"olmes/task"
)

// bos returns the id put before every request, -1 for none, under the policy.
func bos(policy string, d engine.Description) (int32, error) {
	put := false
	switch policy {
	case "auto":
		put = task.NeedsBOS(d.Architecture)
	case "always":
		put = true
	case "tokenizer":
		put = d.AddBOS
	}
	if !put {
		return -1, nil
	}
	if d.BOS < 0 {
		return -1, fmt.Errorf("bos policy %s wants a BOS and the model's vocabulary names none; use --bos never, which is off-standard for this architecture", policy)
	}
	return d.BOS, nil
}
