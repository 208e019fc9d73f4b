package gguf

import "math"

// Codes of the value types in the file.
const (
	codeUint8 = iota
	codeInt8
	codeUint16
	codeInt16
	codeUint32
	codeInt32
	codeFloat32
	codeBool
	codeString
	codeArray
	codeUint64
	codeInt64
	codeFloat64
)

// width is the least number of bytes a value of the type takes.
var width = map[uint32]uint64{
	codeUint8: 1, codeInt8: 1, codeUint16: 2, codeInt16: 2, codeUint32: 4, codeInt32: 4, codeFloat32: 4,
	codeBool: 1, codeString: 8, codeArray: 12, codeUint64: 8, codeInt64: 8, codeFloat64: 8,
}

func (d *decoder) value(code uint32, key string, depth int) any {
	switch code {
	case codeUint8, codeUint16, codeUint32, codeUint64:
		return d.bits(code, key)
	case codeInt8:
		return int64(int8(d.bits(code, key)))
	case codeInt16:
		return int64(int16(d.bits(code, key)))
	case codeInt32:
		return int64(int32(d.bits(code, key)))
	case codeInt64:
		return int64(d.bits(code, key))
	case codeFloat32:
		return float64(math.Float32frombits(uint32(d.bits(code, key))))
	case codeFloat64:
		return math.Float64frombits(d.bits(code, key))
	case codeBool:
		b := d.bits(code, key)
		if b > 1 {
			d.fail("corrupt: the truth value %s is %d", key, b)
		}
		return b == 1
	case codeString:
		return d.text(maxString, "the value of "+key)
	case codeArray:
		return d.array(key, depth)
	}
	d.fail("corrupt: the value of %s has the unknown type %d", key, code)
	return nil
}

func (d *decoder) bits(code uint32, key string) uint64 {
	clear(d.buf[:])
	d.read(d.buf[:width[code]], key)
	return d.order.Uint64(d.buf[:])
}

func (d *decoder) array(key string, depth int) any {
	code, n := d.u32("the type of "+key), d.u64("the length of "+key)
	least, known := width[code]
	if !known {
		d.fail("corrupt: the values of %s have the unknown type %d", key, code)
	}
	d.count(n, least, key)
	switch code {
	case codeUint8, codeUint16, codeUint32, codeUint64:
		return collect[uint64](d, code, n, key, depth)
	case codeInt8, codeInt16, codeInt32, codeInt64:
		return collect[int64](d, code, n, key, depth)
	case codeFloat32, codeFloat64:
		return collect[float64](d, code, n, key, depth)
	case codeBool:
		return collect[bool](d, code, n, key, depth)
	case codeString:
		return collect[string](d, code, n, key, depth)
	}
	if depth+1 >= maxNesting {
		d.fail("corrupt: %s nests arrays too deep", key)
	}
	return collect[any](d, code, n, key, depth+1)
}

func collect[T any](d *decoder, code uint32, n uint64, key string, depth int) []T {
	list := make([]T, 0, min(n, 1<<16))
	for range n {
		list = append(list, d.value(code, key, depth).(T))
	}
	return list
}

// layout says how a weight type lies in memory: block elements in bytes bytes.
type layout struct {
	name         string
	block, bytes int
}

// layouts holds the weight types of llama.cpp v0.5.0 by code (ggml.h, ggml-common.h).
var layouts = map[uint32]layout{
	0: {"F32", 1, 4}, 1: {"F16", 1, 2}, 2: {"Q4_0", 32, 18}, 3: {"Q4_1", 32, 20}, 6: {"Q5_0", 32, 22}, 7: {"Q5_1", 32, 24},
	8: {"Q8_0", 32, 34}, 9: {"Q8_1", 32, 36}, 10: {"Q2_K", 256, 84}, 11: {"Q3_K", 256, 110}, 12: {"Q4_K", 256, 144},
	13: {"Q5_K", 256, 176}, 14: {"Q6_K", 256, 210}, 15: {"Q8_K", 256, 292}, 16: {"IQ2_XXS", 256, 66}, 17: {"IQ2_XS", 256, 74},
	18: {"IQ3_XXS", 256, 98}, 19: {"IQ1_S", 256, 50}, 20: {"IQ4_NL", 32, 18}, 21: {"IQ3_S", 256, 110}, 22: {"IQ2_S", 256, 82},
	23: {"IQ4_XS", 256, 136}, 24: {"I8", 1, 1}, 25: {"I16", 1, 2}, 26: {"I32", 1, 4}, 27: {"I64", 1, 8}, 28: {"F64", 1, 8},
	29: {"IQ1_M", 256, 56}, 30: {"BF16", 1, 2}, 34: {"TQ1_0", 256, 54}, 35: {"TQ2_0", 256, 66}, 39: {"MXFP4", 32, 17},
	40: {"NVFP4", 64, 36}, 41: {"Q1_0", 128, 18}, 42: {"Q2_0", 64, 18},
}
