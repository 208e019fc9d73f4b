package modeltest

import (
	"encoding/binary"
	"math"
)

// Codes of value types in GGUF.
const (
	codeUint32  = 4
	codeInt32   = 5
	codeFloat32 = 6
	codeBool    = 7
	codeString  = 8
	codeArray   = 9
)

const alignment = 32

// writer gathers the parts of a GGUF file of version 3, little-endian.
type writer struct {
	weights         Weights
	values, infos   []byte
	data            []byte
	nValues, nInfos uint64
}

var little = binary.LittleEndian

func appendText(p []byte, s string) []byte {
	return append(little.AppendUint64(p, uint64(len(s))), s...)
}

func (w *writer) key(key string, code uint32) {
	w.values = little.AppendUint32(appendText(w.values, key), code)
	w.nValues++
}

func (w *writer) array(key string, code uint32, n int) {
	w.key(key, codeArray)
	w.values = little.AppendUint64(little.AppendUint32(w.values, code), uint64(n))
}

func (w *writer) text(key, v string) {
	w.key(key, codeString)
	w.values = appendText(w.values, v)
}

func (w *writer) uint32(key string, v uint32) {
	w.key(key, codeUint32)
	w.values = little.AppendUint32(w.values, v)
}

func (w *writer) float32(key string, v float32) {
	w.key(key, codeFloat32)
	w.values = little.AppendUint32(w.values, math.Float32bits(v))
}

func (w *writer) bool(key string, v bool) {
	w.key(key, codeBool)
	if v {
		w.values = append(w.values, 1)
	} else {
		w.values = append(w.values, 0)
	}
}

func (w *writer) texts(key string, list []string) {
	w.array(key, codeString, len(list))
	for _, v := range list {
		w.values = appendText(w.values, v)
	}
}

func (w *writer) int32s(key string, list []int32) {
	w.array(key, codeInt32, len(list))
	for _, v := range list {
		w.values = little.AppendUint32(w.values, uint32(v))
	}
}

func (w *writer) float32s(key string, list []float32) {
	w.array(key, codeFloat32, len(list))
	for _, v := range list {
		w.values = little.AppendUint32(w.values, math.Float32bits(v))
	}
}

func (w *writer) tensor(name string, dims []int, data []float32, kind Weights) {
	w.infos = little.AppendUint32(appendText(w.infos, name), uint32(len(dims)))
	for _, d := range dims {
		w.infos = little.AppendUint64(w.infos, uint64(d))
	}
	w.infos = little.AppendUint64(little.AppendUint32(w.infos, uint32(kind)), uint64(len(w.data)))
	w.nInfos++
	w.data = pad(appendWeights(w.data, data, kind))
}

func pad(p []byte) []byte {
	for len(p)%alignment != 0 {
		p = append(p, 0)
	}
	return p
}

func (w *writer) bytes() []byte {
	p := append([]byte("GGUF"), 3, 0, 0, 0)
	p = little.AppendUint64(p, w.nInfos)
	p = little.AppendUint64(p, w.nValues)
	p = append(append(p, w.values...), w.infos...)
	return append(pad(p), w.data...)
}

func appendWeights(p []byte, data []float32, kind Weights) []byte {
	switch kind {
	case F16:
		for _, v := range data {
			p = little.AppendUint16(p, half(v))
		}
	case BF16:
		for _, v := range data {
			bits := math.Float32bits(v)
			p = little.AppendUint16(p, uint16((bits+0x7fff+bits>>16&1)>>16))
		}
	case Q8:
		for ; len(data) >= 32; data = data[32:] {
			p = appendBlock(p, data[:32])
		}
	default:
		for _, v := range data {
			p = little.AppendUint32(p, math.Float32bits(v))
		}
	}
	return p
}

// appendBlock appends a block of Q8_0: a scale in F16 and 32 signed bytes.
func appendBlock(p []byte, block []float32) []byte {
	var most float64
	for _, v := range block {
		most = max(most, math.Abs(float64(v)))
	}
	scale := most / 127
	p = little.AppendUint16(p, half(float32(scale)))
	for _, v := range block {
		var q int8
		if scale > 0 {
			q = int8(math.Round(float64(v) / scale))
		}
		p = append(p, byte(q))
	}
	return p
}

// half returns the nearest half-precision number; too small ones become 0,
// too large ones infinite.
func half(v float32) uint16 {
	bits := math.Float32bits(v)
	sign := uint16(bits >> 16 & 0x8000)
	exponent := int(bits>>23&0xff) - 127 + 15
	switch {
	case math.IsNaN(float64(v)):
		return sign | 0x7e00
	case exponent >= 31:
		return sign | 0x7c00
	case exponent <= 0:
		return sign | uint16(math.RoundToEven(math.Abs(float64(v))*(1<<24)))
	}
	mantissa := bits & 0x7fffff
	rounded := mantissa + 0xfff + mantissa>>13&1
	// A carry out of the mantissa goes into the exponent, as it should.
	return sign + uint16(exponent)<<10 + uint16(rounded>>13)
}
