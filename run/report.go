package run

// Reporter hears what a run is doing. Its methods are called from one
// goroutine at a time.
type Reporter interface {
	// Phase starts a phase of total steps of the given unit ("bytes", "%",
	// "requests", "tokens"; "" counts nothing); total 0 means unknown.
	Phase(name, unit string, total int64) Phase
	// Note tells one line worth keeping: a deviation, a restart, a reuse.
	Note(text string)
}

// Phase is one phase of a run.
type Phase interface {
	// Update sets how many steps are done, and a short text about the state.
	Update(done int64, state string)
	// Done ends the phase with a short text about its outcome, which may be "".
	Done(outcome string)
}

// Silent is a Reporter that says nothing.
type Silent struct{}

func (Silent) Phase(string, string, int64) Phase { return silentPhase{} }
func (Silent) Note(string)                       {}

type silentPhase struct{}

func (silentPhase) Update(int64, string) {}
func (silentPhase) Done(string)          {}
