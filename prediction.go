package olmes

// Normalization says how the log-probabilities of one instance's choices are
// made comparable (paper, section 3.3).
type Normalization string

const (
	None      Normalization = "none"      // log-probability
	Token     Normalization = "token"     // divided by the continuation's tokens
	Character Normalization = "character" // divided by the continuation's code points, leading space included
	PMI       Normalization = "pmi"       // minus the log-probability after "Answer:" alone
)

// Normalizations lists all four in the order tables show them.
func Normalizations() []Normalization { return []Normalization{None, Token, Character, PMI} }

// TokenScore is one token and its log-probability in nats.
type TokenScore struct {
	ID      int32   `json:"id"`
	LogProb float64 `json:"logprob"`
}

// Output is what a model gave for a generate or rolling request.
type Output struct {
	Text   string       `json:"text,omitempty"`
	Tokens []TokenScore `json:"tokens,omitempty"`
	Error  string       `json:"error,omitempty"`
}

// LogProbRounding is how far above 0 a log-probability may be by rounding, in nats.
// What is further above is none.
const LogProbRounding = 1e-6

// Choice is the outcome of one score request. LogProb is nil exactly where
// Error is set: a missing number is absent, never 0.
type Choice struct {
	LogProb               *float64  `json:"logprob"`                 // nats, sum over the continuation's tokens
	Tokens                int       `json:"tokens"`                  // tokens of the continuation
	Chars                 int       `json:"chars"`                   // Unicode code points of the continuation, leading space included
	Bytes                 int       `json:"bytes"`                   // UTF-8 bytes of the continuation
	Unconditional         *float64  `json:"unconditional,omitempty"` // nats, after "Answer:" alone; nil where not scored
	TokenLogProbs         []float64 `json:"token_logprobs,omitempty"`
	ContinuationIDs       []int32   `json:"continuation_ids,omitempty"`
	UnconditionalLogProbs []float64 `json:"unconditional_logprobs,omitempty"`
	ContextTokens         int       `json:"context_tokens"` // tokens before the continuation, BOS included, after truncation
	Dropped               int       `json:"dropped"`        // tokens cut from the left
	RequestSHA256         string    `json:"request_sha256"` // of context, a NUL byte, continuation
	IDsSHA256             string    `json:"ids_sha256"`     // of the ids fed, little-endian int32
	Error                 string    `json:"error,omitempty"`
}

// Prediction is what a model said about one instance in one formulation.
type Prediction struct {
	Task        string                `json:"task"`
	Formulation Formulation           `json:"formulation"`
	Variant     string                `json:"variant"`
	Split       string                `json:"split"`
	Kind        Kind                  `json:"kind"`
	DocID       int                   `json:"doc_id"`
	NativeID    string                `json:"native_id"`
	Gold        int                   `json:"gold"` // position as shown; -1 where there is none (generate, rolling)
	Env         int                   `json:"env"`  // index into the record's environments
	Chunk       string                `json:"chunk"`
	Choices     []Choice              `json:"choices"`
	Outputs     []Output              `json:"outputs,omitempty"`
	Prompt      *Prompt               `json:"prompt,omitempty"` // only where a record embeds text
	Order       []int                 `json:"order,omitempty"`  // position in the dataset of each choice; nil where they stand as there
	Predictions map[Normalization]int `json:"predictions"`      // best choice under each normalization scored; absent where undefined
}

// Key returns the prediction's key.
func (p *Prediction) Key() Key {
	return Key{Task: p.Task, Split: p.Split, DocID: p.DocID, Formulation: p.Formulation, Variant: p.Variant}
}
