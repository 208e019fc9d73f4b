// Package run drives an evaluation: it fetches what is needed, renders and
// encodes the requests, cuts them into the plan's chunks, has an engine score
// them, and seals a record.
//
// The steps are
//
//  1. Open: resolve the tasks, the model, the data and the engine.
//  2. Prepare: render and encode every request, cut the chunks; now the run's
//     identity, and with it its id, is known before anything is computed.
//  3. Score: score the chunks that neither the run's own journal nor a finished
//     run holds, and seal the record.
//
// What a run prints is the caller's: the package speaks through a Reporter.
package run
