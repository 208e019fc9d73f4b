package pyrandom

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// script answers each line of its input, one draw after another from one
// generator a line.
const script = `
import json, random, sys
for line in sys.stdin:
    q = json.loads(line)
    r = random.Random(int(q["seed"]))
    out = [r.sample(range(q["n"]), q["k"])]
    items = list(range(q["shuffle"]))
    r.shuffle(items)
    out += [items, r.random().hex(), r.randrange(*q["range"]), str(r.getrandbits(q["bits"])), r.sample(range(q["n"]), q["k"])]
    print(json.dumps(out))
`

type query struct {
	Seed    string `json:"seed"`
	N       int    `json:"n"`
	K       int    `json:"k"`
	Shuffle int    `json:"shuffle"`
	Range   [3]int `json:"range"`
	Bits    int    `json:"bits"`
}

func (q query) answer() []any {
	seed, ok := new(big.Int).SetString(q.Seed, 10)
	if !ok {
		panic(q.Seed)
	}
	r := NewBig(seed)
	first := r.Sample(q.N, q.K)
	items := make([]int, q.Shuffle)
	for i := range items {
		items[i] = i
	}
	r.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
	number := r.Random()
	return []any{
		first, items, number,
		r.RandRange(q.Range[0], q.Range[1], q.Range[2]),
		fmt.Sprint(r.GetRandBits(q.Bits)), r.Sample(q.N, q.K),
	}
}

// queries draws seeds of every size and sign, populations on both sides of the
// switch between pool and set, and ranges of both directions.
func queries(count int) []query {
	rng := rand.New(rand.NewPCG(1, 2))
	var all []query
	for i := range count {
		seed := new(big.Int).SetUint64(rng.Uint64() >> rng.IntN(64))
		if i%10 == 0 {
			seed.Lsh(seed, uint(rng.IntN(200)))
		}
		if i%3 == 0 {
			seed.Neg(seed)
		}
		k := rng.IntN(60)
		n := k + rng.IntN(400)
		switch i % 4 {
		case 1: // at the switch, or one beside it
			n = max(k, setSize(k)+rng.IntN(3)-1)
		case 2:
			n = k + rng.IntN(1<<uint(rng.IntN(40)))
		case 3:
			n = k
		}
		start := int(rng.Uint64()>>uint(1+rng.IntN(62))) - rng.IntN(1000)
		stop := start + 1 + rng.IntN(1<<uint(rng.IntN(20)))
		step := 1 + rng.IntN(50)
		if i%2 == 0 {
			start, stop, step = stop, start, -step
		}
		all = append(all, query{seed.String(), n, k, rng.IntN(80), [3]int{start, stop, step}, 1 + rng.IntN(64)})
	}
	all[0].Seed = "0"
	all[1].Range = [3]int{math.MinInt64, math.MaxInt64, 1}
	all[2].Range = [3]int{math.MaxInt64, math.MinInt64, -3}
	all[3].Seed = "-9223372036854775808"
	return all
}

// TestPython compares every method with the machine's own Python.
func TestPython(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("no python3 to compare with")
	}
	all := queries(1500)
	var in bytes.Buffer
	for _, q := range all {
		if err := json.NewEncoder(&in).Encode(q); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), python, "-c", script)
	cmd.Stdin, cmd.Stderr = &in, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<20)
	differ, compared, pools := 0, 0, 0
	for i := 0; lines.Scan(); i++ {
		var want []json.RawMessage
		if err := json.Unmarshal(lines.Bytes(), &want); err != nil {
			t.Fatal(err)
		}
		q := all[i]
		for j, got := range q.answer() {
			var text string
			switch got := got.(type) {
			case float64:
				// Hexadecimal, so that no digit is lost.
				hex := strings.Trim(string(want[j]), `"`)
				if f, err := strconv.ParseFloat(hex, 64); err == nil && f == got {
					text = string(want[j])
				}
			case []int:
				text = strings.ReplaceAll(fmt.Sprint(got), " ", ", ")
			case string:
				text = `"` + got + `"`
			default:
				text = fmt.Sprint(got)
			}
			if text != string(want[j]) {
				if differ++; differ <= 5 {
					t.Errorf("%+v: draw %d is %v, Python's %s", q, j, got, want[j])
				}
			}
		}
		if q.N <= setSize(q.K) {
			pools++
		}
		compared++
	}
	if compared != len(all) || pools < 200 || compared-pools < 200 {
		t.Errorf("%d of %d compared, %d of them from a pool", compared, len(all), pools)
	}
}

// TestGoldens holds a few values for machines without Python.
func TestGoldens(t *testing.T) {
	if got, want := New(1234).Sample(2376, 5), []int{1805, 478, 30, 371, 143}; !slices.Equal(got, want) {
		t.Errorf("Random(1234).sample(range(2376), 5) = %v, want %v", got, want)
	}
	if got, want := New(1234).Sample(10042, 1000)[995:], []int{6672, 6916, 2749, 1447, 7325}; !slices.Equal(got, want) {
		t.Errorf("Random(1234).sample(range(10042), 1000)[995:] = %v, want %v", got, want)
	}
	r := New(-42)
	if got, want := r.Random(), 0.6394267984578837; got != want {
		t.Errorf("Random(-42).random() = %v, want %v", got, want)
	}
	if got, want := r.RandRange(100, -100, -7), 100; got != want {
		t.Errorf("randrange(100, -100, -7) = %d, want %d", got, want)
	}
	if got, want := r.GetRandBits(64), uint64(5073395517033431291); got != want {
		t.Errorf("getrandbits(64) = %d, want %d", got, want)
	}
	items := []byte("abcdefgh")
	r.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
	if got, want := string(items), "hfceagbd"; got != want {
		t.Errorf("shuffle gives %s, want %s", got, want)
	}
}

func TestPanics(t *testing.T) {
	r := New(0)
	for name, f := range map[string]func(){
		"negative sample": func() { r.Sample(3, -1) },
		"large sample":    func() { r.Sample(3, 4) },
		"below 0":         func() { r.RandBelow(0) },
		"empty range":     func() { r.RandRange(3, 3, 1) },
		"step 0":          func() { r.RandRange(3, 4, 0) },
		"65 bits":         func() { r.GetRandBits(65) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
	if got := r.Sample(0, 0); len(got) != 0 {
		t.Errorf("sample of nothing: %v", got)
	}
	if got := r.GetRandBits(0); got != 0 {
		t.Errorf("no bits: %d", got)
	}
}
