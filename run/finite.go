package run

import (
	"fmt"
	"math"

	"olmes"
)

// notFinite describes the first value that is no log-probability, or is "".
// Such a value is an error of its instance, never a score.
func notFinite(values []float64) string {
	for i, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) || v > olmes.LogProbRounding {
			return fmt.Sprintf("the engine gave %v as log-probability of continuation token %d", v, i)
		}
	}
	return ""
}
