package main

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"olmes/report"
	"olmes/run"
)

func (a *app) benchCommand() *cobra.Command {
	var c run.Config
	var asJSON, noLimit bool
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "measure what tasks cost, and the engine's own limit",
		Long: `Bench scores the first instances of each task and says what that cost: tokens, seconds
of every phase, and how long the engine's library takes for plain decoding of as many
tokens and output rows after as many tokens as are before the task's own. No record is kept.

A ratio (limit / decode) of 1 means that scoring is as fast as the engine can be.`,
		Example: `  olmes bench -t arc_easy,boolq --instances 100
  olmes bench --json | jq .limit_ratio`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			env, err := a.env()
			if err != nil {
				return err
			}
			var costs []run.Cost
			err = run.Bench(cmd.Context(), c, !noLimit, env, func(cost run.Cost) error {
				costs = append(costs, cost)
				if asJSON {
					return json.NewEncoder(a.stdout).Encode(cost)
				}
				return nil
			})
			if err != nil {
				return coded(err)
			}
			if asJSON {
				return nil
			}
			return report.Costs(a.stdout, rows(costs))
		},
	}
	a.modelFlags(cmd, &c)
	dataFlags(cmd, &c)
	f := cmd.Flags()
	tasksFlag(cmd, &c.Tasks, "olmes: all ten")
	f.StringVar(&c.Formulation, "formulation", "", "cf, mcf or both (default both)")
	f.IntVar(&c.Limit, "instances", 0, "first `N` instances of a task (default all of the standard's)")
	f.MarkHidden("limit") // the same as --instances
	f.BoolVar(&noLimit, "no-limit", false, "leave out the engine's limit, which doubles the time")
	f.BoolVar(&asJSON, "json", false, "print one JSON object a line, each as soon as it is known")
	return cmd
}

// rows are the costs as the report shows them.
func rows(costs []run.Cost) []report.Cost {
	out := make([]report.Cost, len(costs))
	for i, c := range costs {
		out[i] = report.Cost{Task: c.Task, Formulation: string(c.Formulation), Requests: c.Requests,
			Naive: c.TokensNaive, Distinct: c.TokensDistinct, Computed: c.TokensComputed, Depth: c.Depth,
			Prepare: c.SecondsRender + c.SecondsTokenize + c.SecondsSchedule, Decode: c.SecondsDecode, Sum: c.SecondsSum,
			Other: c.SecondsPack + c.SecondsWrite, Total: c.SecondsTotal, Rate: c.TokensPerSecond, Ratio: c.LimitRatio, Peak: c.PeakRSSBytes}
	}
	return out
}
