package run

import (
	"encoding/json"
	"reflect"

	"olmes/engine"
	"olmes/record"
)

// kept returns the plan of the run that this one takes up, and its folder: of
// the run in the folder that is asked for, or where the runs are to be resumed
// and no folder is named, of one of the same model and settings among them. A
// plan that follows from free memory would else be another one, and the run
// another run, whenever that has changed.
func (r *Run) kept() (p engine.Plan, dir string, ok bool) {
	var found *record.Record
	if dir := r.options.Dir; dir != "" {
		if rec, err := record.Open(dir); err == nil && r.sameModel(rec) {
			found = rec
		}
	} else if r.options.Resume {
		all, err := record.List(r.env.Runs)
		if err != nil {
			return p, "", false
		}
		for _, rec := range all {
			if r.sameModel(rec) && r.sameSettings(rec) && (found == nil || later(rec, found)) {
				found = rec
			}
		}
	}
	if found == nil || json.Unmarshal(found.Identity.Plan, &p) != nil {
		return p, "", false
	}
	return p, found.Dir, true
}

// sameModel reports whether a record is of this program and this run's model.
func (r *Run) sameModel(rec *record.Record) bool {
	sum := r.setup.Model.SHA256
	return sum != "" && rec.Identity.Model.SHA256 == sum && rec.Identity.Product == Version
}

// sameSettings reports whether a record was made with this run's settings, but
// for those that change no result.
func (r *Run) sameSettings(rec *record.Record) bool {
	var theirs, ours Config
	data, err := json.Marshal(r.config)
	if err != nil || json.Unmarshal(data, &ours) != nil || json.Unmarshal(rec.Provenance.Resolved, &theirs) != nil {
		return false
	}
	for _, c := range []*Config{&ours, &theirs} {
		c.AcceptLicense, c.Threads, c.Python, c.Devices, c.WorkerDevices, c.Concurrency = nil, 0, "", nil, nil, 0
	}
	return reflect.DeepEqual(ours, theirs)
}

// later reports whether a is to be taken up before b: an unfinished run before
// a finished one, and then the one that was begun last.
func later(a, b *record.Record) bool {
	if a.Complete() != b.Complete() {
		return !a.Complete()
	}
	return a.Provenance.Created.After(b.Provenance.Created)
}
