package openai

import (
	"bufio"
	"context"
	"strconv"
	"strings"
	"sync"
)

// Metrics are what the calls of an engine cost the server.
type Metrics struct {
	Calls        int64 `json:"calls"`                   // HTTP requests for log-probabilities, without repeated ones
	Retried      int64 `json:"retried,omitempty"`       // attempts that failed and were made again, of any kind
	Prompts      int64 `json:"prompts"`                 // in these calls
	PromptTokens int64 `json:"prompt_tokens"`           // of these prompts
	CachedTokens int64 `json:"cached_tokens"`           // of these, taken from the server's cache; -1 where it does not tell
	CacheQueries int64 `json:"cache_queries,omitempty"` // tokens looked up in the server's prefix cache since it started, by its own metrics
	CacheHits    int64 `json:"cache_hits,omitempty"`    // of these, found
}

// counters sum up usage.
type counters struct {
	mu sync.Mutex
	m  Metrics
}

func (c *counters) add(prompts int, u usage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.m.Calls++
	c.m.Prompts += int64(prompts)
	c.m.PromptTokens += int64(u.prompt)
	if u.cached < 0 {
		c.m.CachedTokens = -1
	} else if c.m.CachedTokens >= 0 {
		c.m.CachedTokens += int64(u.cached)
	}
}

// Metrics returns what the calls cost so far, with the server's own counters
// where it has any.
func (e *Engine) Metrics(ctx context.Context) Metrics {
	e.metrics.mu.Lock()
	m := e.metrics.m
	e.metrics.mu.Unlock()
	m.Retried = e.c.retried.Load()
	var text string
	if _, ok := e.b.(*completions); ok && e.b.name() == "vllm" {
		// Served without an API key's protection; a server that lacks it tells nothing.
		if e.c.get(ctx, e.c.root+"/metrics", &text) == nil {
			m.CacheQueries = sumMetric(text, "vllm:prefix_cache_queries_total")
			m.CacheHits = sumMetric(text, "vllm:prefix_cache_hits_total")
		}
	}
	return m
}

// sumMetric adds up all samples of a counter in Prometheus' text format.
func sumMetric(text, name string) int64 {
	sum := 0.0
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		line := lines.Text()
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest == "" || rest[0] != '{' && rest[0] != ' ' {
			continue
		}
		if i := strings.LastIndexByte(line, ' '); i > 0 {
			if v, err := strconv.ParseFloat(line[i+1:], 64); err == nil {
				sum += v
			}
		}
	}
	return int64(sum)
}
