package llamacpp

import (
	"runtime"
	"unsafe"

	"github.com/hybridgroup/yzma/pkg/loader"
	"github.com/jupiterrider/ffi"
)

// summed is what a library that sums over the vocabulary by itself gives of a
// batch: the native build does (package library, sums.go).
type summed struct {
	first  []int32   // rows + 1: where each output row's tokens start
	tokens []int32   // wanted, ascending within a row
	picked []float32 // their logits
	sums   []float64 // each row's ln of the sum of e^x
	filled bool      // picked and sums are set; if not, logits are to be had as usual
}

// summer is a cache whose library may sum by itself.
type summer interface {
	decodeSums(batch []slot, s *summed) error
}

// sink is olmes_sink in C.
type sink struct {
	rows   int64
	first  *int32
	tokens *int32
	picked *float32
	sum    *float64
	filled int32
	_      int32
}

// decodeSums is decode, with the library told to fill s where it can. A sink is
// a thread's own.
func (c *nativeCache) decodeSums(batch []slot, s *summed) error {
	if c.setSink == nil || len(s.sums) == 0 {
		return c.decode(batch)
	}
	k := &sink{rows: int64(len(s.sums)), first: &s.first[0], tokens: &s.tokens[0], picked: &s.picked[0], sum: &s.sums[0]}
	var pin runtime.Pinner
	defer pin.Unpin()
	for _, p := range []any{k, k.first, k.tokens, k.picked, k.sum} {
		pin.Pin(p)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	set := func(p *sink) { c.setSink.Call(nil, unsafe.Pointer(&p)) }
	set(k)
	err := c.decode(batch)
	set(nil)
	s.filled = err == nil && k.filled != 0
	return err
}

// sinkSetter returns the library's function that sets a sink, or nil where it
// has none.
func sinkSetter(lib loader.Lib) *ffi.Fun {
	f, err := lib.Prep("olmes_set_sink", &ffi.TypeVoid, &ffi.TypePointer)
	if err != nil {
		return nil
	}
	return &f
}
