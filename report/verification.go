package report

import (
	"fmt"
	"io"
	"strings"

	"olmes/record"
)

// Verification prints what a verification of a run found: model and engine,
// damage, deviations, and the verdict in the last line.
func Verification(w io.Writer, id record.Identity, v *record.Report) error {
	var b strings.Builder
	fmt.Fprintf(&b, "run %s  %s: %d predictions, %s\n", v.ID[:min(12, len(v.ID))], v.Dir, v.Predictions, v.Evidence)
	fmt.Fprintf(&b, "%s\n%s\n", modelLine(id), engineLine(id, ""))
	for _, d := range v.Damage {
		fmt.Fprintf(&b, "damaged: %s\n", d)
	}
	Deviations(&b, v.Deviations)
	switch {
	case v.Damaged():
		b.WriteString("damaged: the record does not hold what it says\n")
	case !v.Complete:
		b.WriteString("incomplete: the record is sound so far\n")
	case v.Compliant():
		b.WriteString("compliant: every digest and metric is right, and nothing deviates from the standard\n")
	default:
		b.WriteString("sound but off-standard: every digest and metric is right; what deviates from the standard is listed above\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
