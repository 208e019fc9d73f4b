package openai

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"olmes/engine"
)

// Strategies: how log-probabilities are got out of a server.
const (
	Auto   = "auto"   // chosen by the probe and a cost model
	Echo   = "echo"   // log-probabilities of the prompt's own tokens, one request a path of the tree
	Step   = "step"   // log-probabilities of named tokens after a prompt, one request a node of the tree
	Native = "native" // SGLang's own interface: a path's tokens from a start position on, its prefix kept
)

// Strategies lists the values of Options.Strategy.
func Strategies() []string { return []string{Auto, Echo, Step, Native} }

// Options say which server to use and how.
type Options struct {
	// URL is the server's address, "http://host:port" or with the path of its
	// API ("https://host/v1").
	URL string
	// Model is the name the server knows the model by; "" takes the only one it
	// serves.
	Model string
	// APIKey is sent as a bearer token. It stands in no error, log or
	// description.
	APIKey string
	// Strategy is Auto, Echo, Step or Native; "" is Auto.
	Strategy string
	// Concurrency is the most calls in progress; they start fewer and adapt.
	// 0: 32.
	Concurrency int
	// Timeout is for one call. 0: five minutes.
	Timeout time.Duration
	// Retries is how often one call is tried again after a lost connection, a
	// time-out, a damaged answer or the statuses 408, 425, 429 and 5xx. 0: 8;
	// below 0: never.
	Retries int
	// MaxFailures is the share of failed calls, from 0 to 1, above which every
	// further one is refused, once MinCalls were made. 0: 0.5.
	MaxFailures float64
	// Tokenizer cuts text into ids instead of the server, for those that have no
	// interface for it. It must be the model's own: the probe compares the two.
	Tokenizer engine.Tokenizer
	// Vocab is the number of token ids, for servers that do not tell it. 0: ask.
	Vocab int
	// BOS is the id of the beginning-of-sequence token where the caller knows
	// it; nil: ask the server.
	BOS *int32
	// Architecture ("llama"), DType ("float32") and Quantization of the model
	// where the caller knows them: few servers tell.
	Architecture, DType, Quantization string
	// Block is the number of tokens of a block of the server's prefix cache, for
	// the cost model. 0: what the server tells, or 16.
	Block int
	// Log takes lines about retries and the probe; nil: nowhere.
	Log io.Writer
	// Client, if set, sends the requests; nil: one that honours the proxies and
	// certificates of the environment.
	Client *http.Client
	// Child, if set, is the server, where this program started it. After a lost
	// connection it is started again if it has ended; Close stops it, and so does
	// Start where it fails.
	Child Child
}

// Child is a server that this program started, such as package server's *Server.
type Child interface {
	// Ensure returns at once while the server runs; where it has ended by itself
	// it is started again at the same address, and waited for.
	Ensure(ctx context.Context) error
	// Close stops the server.
	Close() error
}

// MinCalls is how many calls must have been made before Options.MaxFailures
// counts.
const MinCalls = 20

func (o Options) resolved() (Options, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return o, engine.InputError(fmt.Errorf("server address %q: an address such as http://localhost:8000 is needed", redactURL(o.URL)))
	}
	if o.Strategy == "" {
		o.Strategy = Auto
	}
	if !slices.Contains(Strategies(), o.Strategy) {
		return o, engine.InputError(fmt.Errorf("strategy %q: it is one of %s", o.Strategy, strings.Join(Strategies(), ", ")))
	}
	if o.Concurrency <= 0 {
		o.Concurrency = 32
	}
	if o.Timeout <= 0 {
		o.Timeout = 5 * time.Minute
	}
	if o.Retries == 0 {
		o.Retries = 8
	}
	o.Retries = max(o.Retries, 0)
	if o.MaxFailures <= 0 {
		o.MaxFailures = 0.5
	}
	if o.Client == nil {
		transport := http.DefaultTransport.(*http.Transport).Clone() // proxies of the environment
		transport.MaxIdleConnsPerHost = o.Concurrency
		o.Client = &http.Client{Transport: transport}
	}
	return o, nil
}

// redactURL returns an address without user and password.
func redactURL(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "[not an address]"
	}
	u.User = nil
	u.RawQuery = ""
	return u.String()
}
