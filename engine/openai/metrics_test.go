package openai

import "testing"

func TestSumMetric(t *testing.T) {
	const text = `# HELP vllm:prompt_tokens_by_source_total tokens
vllm:prompt_tokens_by_source_total{engine="0",source="local_compute"} 120.0
vllm:prompt_tokens_by_source_total{engine="1",source="local_compute"} 1.5e+01
vllm:prompt_tokens_by_source_total{engine="0",source="local_cache_hit"} 1000.0
vllm:prompt_tokens_total{engine="0"} 1120.0
vllm:prefix_cache_hits_total{engine="0"} 1000.0
vllm:prefix_cache_hits_created{engine="0"} 1.7e9
`
	if n, ok := computedTokens(text); n != 135 || !ok {
		t.Errorf("%d tokens, %v, want 135", n, ok)
	}
	if n, ok := sumMetric(text, "vllm:prefix_cache_hits_total", ""); n != 1000 || !ok {
		t.Errorf("%d hits, %v, want 1000", n, ok)
	}
	if _, ok := sumMetric(text, "vllm:prefix_cache", ""); ok {
		t.Error("a part of a name is found")
	}
	p := &probe{c: newClient(Options{URL: "http://x", Concurrency: 1})}
	p.cacheConfig(`vllm:cache_config_info{block_size="32",cache_dtype="auto",enable_prefix_caching="True",engine="0"} 1.0`)
	if p.block != 32 {
		t.Errorf("blocks of %d, want 32", p.block)
	}
	p.cacheConfig(`vllm:cache_config_info{block_size="32",enable_prefix_caching="False",engine="0"} 1.0`)
	if p.block != noCache {
		t.Errorf("without a cache: blocks of %d", p.block)
	}
}
