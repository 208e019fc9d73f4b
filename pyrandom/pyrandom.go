// Package pyrandom reproduces Python's random.Random exactly: the Mersenne
// Twister seeded by an integer, and the methods built on it. Any seed and size
// give what CPython 3.11 and later give; samples are older than that and have
// not changed since 3.2.
//
// It holds only what the standard draws with. Seeds other than integers, and
// distributions, are not there.
package pyrandom

import (
	"fmt"
	"math/big"
	"math/bits"
)

const (
	stateSize = 624
	shift     = 397
	matrix    = 0x9908b0df
	upper     = 0x80000000
	lower     = 0x7fffffff
)

// Rand is one generator. It is not safe for use from several goroutines.
type Rand struct {
	state [stateSize]uint32
	next  int // index into state of the next word
}

// New returns Python's Random(seed).
func New(seed int64) *Rand { return NewBig(big.NewInt(seed)) }

// NewBig returns Python's Random(seed) for a seed of any size. The sign is
// ignored, as Python does.
func NewBig(seed *big.Int) *Rand {
	var key []uint32
	for rest := new(big.Int).Abs(seed); rest.Sign() > 0; rest.Rsh(rest, 32) {
		key = append(key, uint32(new(big.Int).And(rest, big.NewInt(0xffffffff)).Uint64()))
	}
	if len(key) == 0 {
		key = []uint32{0}
	}
	r := new(Rand)
	r.seed(key)
	return r
}

// seed is the Mersenne Twister's init_by_array.
func (r *Rand) seed(key []uint32) {
	s := &r.state
	s[0] = 19650218
	for i := 1; i < stateSize; i++ {
		s[i] = 1812433253*(s[i-1]^s[i-1]>>30) + uint32(i)
	}
	i, j := 1, 0
	for range max(stateSize, len(key)) {
		s[i] = (s[i] ^ (s[i-1]^s[i-1]>>30)*1664525) + key[j] + uint32(j)
		i++
		j++
		if i == stateSize {
			s[0] = s[stateSize-1]
			i = 1
		}
		if j == len(key) {
			j = 0
		}
	}
	for range stateSize - 1 {
		s[i] = (s[i] ^ (s[i-1]^s[i-1]>>30)*1566083941) - uint32(i)
		i++
		if i == stateSize {
			s[0] = s[stateSize-1]
			i = 1
		}
	}
	s[0] = upper
	r.next = stateSize
}

// word returns the next 32 bits.
func (r *Rand) word() uint32 {
	if r.next == stateSize {
		s := &r.state
		for i := range stateSize {
			y := s[i]&upper | s[(i+1)%stateSize]&lower
			s[i] = s[(i+shift)%stateSize] ^ y>>1 ^ (y&1)*matrix
		}
		r.next = 0
	}
	y := r.state[r.next]
	r.next++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

// Random returns a number in [0, 1) with 53 random bits.
func (r *Rand) Random() float64 {
	a, b := r.word()>>5, r.word()>>6
	return (float64(a)*(1<<26) + float64(b)) / (1 << 53)
}

// GetRandBits returns an integer of k random bits, 0 <= k <= 64. It panics
// outside that range.
func (r *Rand) GetRandBits(k int) uint64 {
	switch {
	case k < 0 || k > 64:
		panic(fmt.Sprintf("pyrandom: GetRandBits(%d), want 0 to 64", k))
	case k == 0:
		return 0
	case k <= 32:
		return uint64(r.word() >> (32 - k))
	}
	low := uint64(r.word())
	return low | uint64(r.word()>>(64-k))<<32
}

// RandBelow returns an integer in [0, n). It panics where n < 1.
func (r *Rand) RandBelow(n int) int {
	if n < 1 {
		panic(fmt.Sprintf("pyrandom: RandBelow(%d), want 1 or more", n))
	}
	return int(r.below(uint64(n)))
}

// below draws as many bits as n has until they are below n, which must not be 0.
func (r *Rand) below(n uint64) uint64 {
	k := bits.Len64(n)
	for {
		if v := r.GetRandBits(k); v < n {
			return v
		}
	}
}

// RandRange returns an element of Python's range(start, stop, step). It panics
// where the range is empty, or step is 0.
func (r *Rand) RandRange(start, stop, step int) int {
	// Unsigned arithmetic, since the width may exceed the largest int.
	var width, stride uint64
	switch {
	case step > 0 && start < stop:
		width, stride = uint64(stop)-uint64(start), uint64(step)
	case step < 0 && start > stop:
		width, stride = uint64(start)-uint64(stop), -uint64(step)
	default:
		panic(fmt.Sprintf("pyrandom: RandRange(%d, %d, %d) is empty", start, stop, step))
	}
	return start + step*int(r.below((width-1)/stride+1))
}

// Sample returns Python's sample(range(n), k): k different integers in [0, n)
// in the order drawn. It panics unless 0 <= k <= n.
func (r *Rand) Sample(n, k int) []int {
	if k < 0 || k > n {
		panic(fmt.Sprintf("pyrandom: Sample(%d, %d), want 0 <= k <= n", n, k))
	}
	result := make([]int, k)
	if n <= setSize(k) {
		pool := make([]int, n)
		for i := range pool {
			pool[i] = i
		}
		for i := range result {
			j := r.RandBelow(n - i)
			result[i] = pool[j]
			pool[j] = pool[n-i-1]
		}
		return result
	}
	chosen := make(map[int]bool, k)
	for i := range result {
		j := r.RandBelow(n)
		for chosen[j] {
			j = r.RandBelow(n)
		}
		chosen[j] = true
		result[i] = j
	}
	return result
}

// setSize returns the size of population up to which Python draws from a copy
// of it, where a set of the k drawn would take more memory: 21, for k > 5 plus
// the smallest power of 4 that is not below 3k.
func setSize(k int) int {
	size := 21
	if k > 5 {
		power := 1
		for power < 3*k {
			power *= 4
		}
		size += power
	}
	return size
}

// Shuffle brings n things into the order of Python's shuffle. swap exchanges
// the things at i and j.
func (r *Rand) Shuffle(n int, swap func(i, j int)) {
	for i := n - 1; i > 0; i-- {
		swap(i, r.RandBelow(i+1))
	}
}
