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
	if text, ok := e.counters(ctx); ok {
		m.CacheQueries, _ = sumMetric(text, "vllm:prefix_cache_queries_total", "")
		m.CacheHits, _ = sumMetric(text, "vllm:prefix_cache_hits_total", "")
	}
	return m
}

// counters returns vLLM's counters as text, where the server is vLLM and tells.
func (e *Engine) counters(ctx context.Context) (text string, ok bool) {
	if e.meter == nil {
		return "", false
	}
	return text, e.c.get(ctx, e.c.root+"/metrics", &text) == nil
}

// meter reads how many tokens of prompts a server has computed. vLLM tells for
// the last prompt of a call alone what it took from its cache, and its counters
// tell it for all. Another client's tokens count too.
type meter struct {
	mu   sync.Mutex
	last int64
}

// computedTokens reads the counter out of vLLM's counters.
func computedTokens(text string) (n int64, ok bool) {
	if n, ok = sumMetric(text, "vllm:prompt_tokens_by_source_total", `source="local_compute"`); ok {
		return n, true
	}
	all, ok := sumMetric(text, "vllm:prompt_tokens_total", "")
	hits, _ := sumMetric(text, "vllm:prefix_cache_hits_total", "")
	return all - hits, ok
}

// since returns how many tokens were computed since the last call.
func (e *Engine) since(ctx context.Context) (n int, ok bool) {
	if e.meter == nil {
		return 0, false
	}
	e.meter.mu.Lock()
	defer e.meter.mu.Unlock()
	text, ok := e.counters(ctx)
	if !ok {
		return 0, false
	}
	now, ok := computedTokens(text)
	if !ok {
		return 0, false
	}
	n = int(now - e.meter.last)
	if n < 0 { // another server answers: it was started again
		n = int(now)
	}
	e.meter.last = now
	return n, true
}

// sumMetric adds up all samples of a counter, those that have the label, in
// Prometheus' text format.
func sumMetric(text, name, label string) (n int64, ok bool) {
	sum := 0.0
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		line := lines.Text()
		rest, named := strings.CutPrefix(line, name)
		if !named || rest == "" || rest[0] != '{' && rest[0] != ' ' || !strings.Contains(rest, label) {
			continue
		}
		if i := strings.LastIndexByte(line, ' '); i > 0 {
			if v, err := strconv.ParseFloat(line[i+1:], 64); err == nil {
				sum += v
				ok = true
			}
		}
	}
	return int64(sum), ok
}
