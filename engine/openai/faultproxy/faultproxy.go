// Package faultproxy is an HTTP proxy that fails on purpose: it stands in front
// of a real server in tests of clients.
//
// Steps of use: New with the address of the server and the share of each fault,
// serve it, and compare what the client gets with what it got without the proxy.
// The faults follow a seed, in the order in which answers come.
package faultproxy

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Fault is one way to fail.
type Fault string

// The faults.
const (
	Slow    Fault = "slow"    // the answer comes after Delay
	Busy    Fault = "busy"    // status 429 with Retry-After: 1
	Broken  Fault = "broken"  // status 500
	Cut     Fault = "cut"     // the connection is closed without an answer
	Half    Fault = "half"    // the first half of the answer, then the connection is closed
	Short   Fault = "short"   // the first half of the answer, as if it were the whole
	Swapped Fault = "swapped" // the answer of another request in progress
	NaN     Fault = "nan"     // a number in the answer is NaN
	Null    Fault = "null"    // a number in the answer is null
	Reorder Fault = "reorder" // two parts of the answer have each other's index
	Empty   Fault = "empty"   // status 200 and {}
)

// Proxy is an http.Handler.
type Proxy struct {
	Target string            // address of the server
	Shares map[Fault]float64 // of the requests to Path, from 0 to 1 in all
	Path   string            // only requests to paths that end so fail; "" all
	Delay  time.Duration     // of Slow

	mu     sync.Mutex // guards what follows
	random *rand.Rand
	busy   time.Time // until then everything is Busy
	counts map[Fault]int
	calls  int
	held   chan *held // an answer that waits for another to be swapped with
}

type held struct {
	body []byte
	back chan []byte
}

// New returns a proxy in front of target.
func New(target string, seed uint64, shares map[Fault]float64) *Proxy {
	return &Proxy{Target: target, Shares: shares, Delay: 200 * time.Millisecond, random: rand.New(rand.NewPCG(seed, 0)),
		counts: map[Fault]int{}, held: make(chan *held)}
}

// RefuseFor has everything answered with Busy for a while.
func (p *Proxy) RefuseFor(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy = time.Now().Add(d)
}

// Counts returns how often each fault was shown, and the number of requests.
func (p *Proxy) Counts() (map[Fault]int, int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[Fault]int{}
	for f, n := range p.counts {
		out[f] = n
	}
	return out, p.calls
}

// draw decides on the fault of one request.
func (p *Proxy) draw(path string) Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !strings.HasSuffix(path, p.Path) {
		return ""
	}
	p.calls++
	if time.Now().Before(p.busy) {
		p.counts[Busy]++
		return Busy
	}
	x := p.random.Float64()
	var faults []Fault
	for f := range p.Shares {
		faults = append(faults, f)
	}
	slices.Sort(faults)
	for _, f := range faults {
		if x -= p.Shares[f]; x < 0 {
			p.counts[f]++
			return f
		}
	}
	return ""
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fault := p.draw(r.URL.Path)
	switch fault {
	case Busy:
		w.Header().Set("Retry-After", "1")
		http.Error(w, `{"error":{"message":"too many requests"}}`, http.StatusTooManyRequests)
		return
	case Broken:
		http.Error(w, `{"error":{"message":"broken on purpose"}}`, http.StatusInternalServerError)
		return
	case Cut:
		drop(w)
		return
	case Slow:
		select {
		case <-time.After(p.Delay):
		case <-r.Context().Done():
			return
		}
	}
	req, err := http.NewRequestWithContext(r.Context(), r.Method, p.Target+r.URL.RequestURI(), r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	req.Header = r.Header.Clone()
	req.ContentLength = r.ContentLength
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		drop(w)
		return
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		drop(w)
		return
	}
	if resp.StatusCode == http.StatusOK {
		body = p.spoil(r, fault, body)
	}
	for _, name := range []string{"Content-Type", "Retry-After"} {
		if v := resp.Header.Get(name); v != "" {
			w.Header().Set(name, v)
		}
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(resp.StatusCode)
	if fault == Half {
		w.Write(body[:len(body)/2])
		if f, ok := w.(http.Flusher); ok {
			f.Flush()
		}
		drop(w)
		return
	}
	w.Write(body)
}

// number matches a negative number with a fraction: a log-probability.
var number = regexp.MustCompile(`-\d+\.\d+(e-?\d+)?`)

// index matches the index of a part.
var index = regexp.MustCompile(`"index": ?(\d+)`)

func (p *Proxy) spoil(r *http.Request, fault Fault, body []byte) []byte {
	switch fault {
	case Short:
		return body[:len(body)/2]
	case Empty:
		return []byte("{}")
	case NaN, Null:
		word := map[Fault]string{NaN: "NaN", Null: "null"}[fault]
		if all := number.FindAllIndex(body, -1); all != nil {
			at := all[len(all)/2]
			return slices.Concat(body[:at[0]], []byte(word), body[at[1]:])
		}
	case Reorder:
		if all := index.FindAllSubmatchIndex(body, 2); len(all) == 2 {
			a, b := body[all[0][2]:all[0][3]], body[all[1][2]:all[1][3]]
			return slices.Concat(body[:all[0][2]], b, body[all[0][3]:all[1][2]], a, body[all[1][3]:])
		}
	case Swapped:
		return p.swap(r, body)
	}
	return body
}

// swap exchanges the answer with that of the next one that is to be swapped, if
// one comes soon.
func (p *Proxy) swap(r *http.Request, body []byte) []byte {
	mine := &held{bytes.Clone(body), make(chan []byte, 1)}
	select {
	case p.held <- mine:
		return <-mine.back
	case other := <-p.held:
		other.back <- mine.body
		return other.body
	case <-time.After(500 * time.Millisecond):
	case <-r.Context().Done():
	}
	return body
}

// drop closes the connection.
func drop(w http.ResponseWriter) {
	if h, ok := w.(http.Hijacker); ok {
		if conn, _, err := h.Hijack(); err == nil {
			conn.Close()
			return
		}
	}
	panic(http.ErrAbortHandler)
}
