package report

import (
	"fmt"
	"io"
	"slices"
)

// Cost is what one task in one formulation costs; times are in seconds.
type Cost struct {
	Task, Formulation         string
	Requests                  int
	Naive, Distinct, Computed int64
	Depth                     int     // mean number of tokens before a computed one
	Prepare                   float64 // prompts, tokens, chunks
	Decode, Sum, Other, Total float64
	Rate                      float64 // tokens a second
	Ratio                     float64 // of the engine's limit to Decode; 0 if not measured
	Peak                      int64   // bytes
}

// Costs prints a row for each cost, and the median of the ratios.
func Costs(w io.Writer, costs []Cost) error {
	t := table{header: []string{"task", "", "requests", "naive", "distinct", "computed", "depth", "prepare", "decode", "sum", "other", "total s", "tokens/s", "limit"}}
	var ratios []float64
	var peak int64
	seconds := func(x float64) string { return fmt.Sprintf("%.2f", x) }
	for _, c := range costs {
		ratio := ""
		if c.Ratio > 0 {
			ratio = fmt.Sprintf("%.3f", c.Ratio)
			ratios = append(ratios, c.Ratio)
		}
		peak = max(peak, c.Peak)
		t.add([]string{c.Task, c.Formulation, fmt.Sprint(c.Requests), fmt.Sprint(c.Naive), fmt.Sprint(c.Distinct), fmt.Sprint(c.Computed), fmt.Sprint(c.Depth),
			seconds(c.Prepare), seconds(c.Decode), seconds(c.Sum), seconds(c.Other), seconds(c.Total), fmt.Sprintf("%.0f", c.Rate), ratio})
	}
	if _, err := t.writeTo(w); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	text := "limit: time of plain decoding of as many tokens and rows, as a share of decode\n"
	if n := len(ratios); n > 0 {
		slices.Sort(ratios)
		text += fmt.Sprintf("limit: median %.3f, least %.3f\n", (ratios[n/2]+ratios[(n-1)/2])/2, ratios[0])
	}
	if peak > 0 {
		text += fmt.Sprintf("peak memory of the engine: %d MB\n", peak/1e6)
	}
	_, err := io.WriteString(w, text)
	return err
}
