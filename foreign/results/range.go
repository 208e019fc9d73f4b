package results

import (
	"fmt"
	"math"
	"strings"

	"olmes"
)

// CheckLogProb returns an error where a number, which the file calls name, cannot be a
// log-probability: it is above 0 by more than rounding makes it. What is not finite is left to
// the caller.
func CheckLogProb(name string, n Number) error {
	if n.Finite() && n.Value > olmes.LogProbRounding {
		return fmt.Errorf("%s is %v; a log-probability is at most 0", name, n)
	}
	return nil
}

// IsAccuracy reports whether a metric is a share of right answers by its name, which
// lm-eval and AI2's tools have in common ("acc", "acc_norm", "accuracy:logprob").
func IsAccuracy(metric string) bool {
	return metric == "acc" || strings.HasPrefix(metric, "acc_") || strings.HasPrefix(metric, "accuracy") || metric == "exact_match"
}

// CheckAccuracy returns an error where a printed number, which the file calls name,
// cannot be an accuracy. What is not finite is left to the caller.
func CheckAccuracy(name string, n Number) error {
	const rounding = 1e-9
	switch {
	case !n.Finite() || n.Value >= 0 && n.Value <= 1+rounding:
		return nil
	case n.Value > 1 && n.Value <= 100:
		return fmt.Errorf("%s is %v; it is a fraction from 0 to 1, so divide percentages by 100", name, n)
	}
	return fmt.Errorf("%s is %v; it is a fraction from 0 to 1", name, n)
}

// CheckSE returns an error where a printed number, which the file calls name, cannot be
// a standard error, of an accuracy where accuracy says so. NaN is none and no error.
func CheckSE(name string, n Number, accuracy bool) error {
	switch {
	case !n.Set || math.IsNaN(n.Value):
		return nil
	case n.Value < 0 || math.IsInf(n.Value, 0):
		return fmt.Errorf("%s is %v; a standard error is a number from 0 on", name, n)
	case accuracy && n.Value > 1:
		return fmt.Errorf("%s is %v; the standard error of an accuracy is at most 1", name, n)
	}
	return nil
}
