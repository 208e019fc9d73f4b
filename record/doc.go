// Package record keeps the outcome of one run in a folder: what was asked
// (identity), what came back (results), and who did it, when and where
// (provenance). docs/record.md describes the format.
//
// The steps of use are: fill an Identity; Create a folder, or Resume one that
// was broken off; Append every finished chunk; Seal. Afterwards Open reads the
// record, Verify checks all of it, and Find turns a short id into a folder.
//
// Nothing under a final name is ever half-written. A crash leaves either a
// complete record or one that Resume takes up, and at most the chunk that was
// being written is lost. Records hold no dataset text unless a prediction
// brings its prompt, and no secrets: see package secret.
package record

import "errors"

// Format is the version of the folder's format that this package writes. It
// reads this and every older one.
const Format = 1

// Names of the files in a record.
const (
	manifestName    = "manifest.json"
	predictionsName = "predictions.parquet"
	metricsName     = "metrics.json"
	journalName     = "journal.jsonl"
	lockName        = "lock"
	tempPrefix      = ".tmp-"
)

// Errors that callers tell apart with errors.Is; their texts in use say where
// and what to do.
var (
	ErrExists     = errors.New("the folder already holds this run")
	ErrOther      = errors.New("the folder holds another run")
	ErrSealed     = errors.New("the run is complete")
	ErrIncomplete = errors.New("the run is not complete")
	ErrLocked     = errors.New("another process is writing into the folder")
	ErrNotRecord  = errors.New("not a run folder")
	ErrNewer      = errors.New("the record has a newer format")
	ErrDamaged    = errors.New("the record is damaged")
	ErrNoSpace    = errors.New("the disk is full")
	ErrNotFound   = errors.New("no such run")
	ErrAmbiguous  = errors.New("several runs have this prefix")
)
