package olmes

// Cleaning names the clean-up that a template applies to the text of its
// instances.
type Cleaning string

const (
	NoCleaning Cleaning = ""        // text goes into the prompt as it is
	WikiHow    Cleaning = "wikihow" // hellaswag's: trimming, bracketed marks out, two spaces to one
)

// Form is what differs between the two formulations of one template.
//
// The query of an instance is Prefix, question, Suffix, in MCF the list of
// labelled choices, and Cue.
type Form struct {
	Prefix string `json:"prefix"` // before the question: "Question: "
	Suffix string `json:"suffix"` // right after the question: boolq's "?"
	Cue    string `json:"cue"`    // at the query's end: "\nAnswer:"
}

// Template says how the instances of a task become text. It is data only, so
// that a variant of a prompt (another separator, other labels) is another value
// and not other code; package prompt does the rendering.
//
// A context is Description, then each example followed by Separator, then the
// query. An example is its query followed by Gap and the right answer.
type Template struct {
	Description   string   `json:"description"`     // stands once at the start, its own line breaks included
	Separator     string   `json:"separator"`       // after each example
	PassageEnd    string   `json:"passage_end"`     // after the passage; "" where the instances have none
	CF            Form     `json:"cf"`              //
	MCF           Form     `json:"mcf"`             //
	Labels        string   `json:"labels"`          // the label of choice i is the i-th code point
	LabelStart    string   `json:"label_start"`     // before each label in the list of choices
	LabelEnd      string   `json:"label_end"`       // between label and choice
	Gap           string   `json:"gap"`             // between a query and its answer, the first character of a continuation
	Unconditional string   `json:"unconditional"`   // the context of pmi's second request
	TrimQuestion  bool     `json:"trim_question"`   // white space around the question is cut
	Cleaning      Cleaning `json:"cleaning"`        // in CF over question and choices, in MCF over the whole query
	Blank         string   `json:"blank,omitempty"` // winogrande: what stands for the sentence's "_" in MCF; in CF the option goes there and the rest of the sentence is scored
}

// Form returns the half of the template that serves f.
func (t *Template) Form(f Formulation) Form {
	if f == MCF {
		return t.MCF
	}
	return t.CF
}
