package audit

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// checked is a ledger of a and b with one check by a relation.
func checked(a, b, value, relation string) string {
	return "ledger: 1\ntitle: t\nclaims:\n  - {id: a, kind: other, value: " + a + "}\n  - {id: b, kind: other, value: " + b + "}\n  - {id: v, kind: other, value: " + value + "}\n" +
		"checks:\n  - {says: s, value: v, " + relation + ": [a, b]}\n"
}

// Whatever the signs, the quotient of any two numbers that print as the operands
// lies in the range computed, and its ends are reached.
func TestQuotient(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		digits := rapid.IntRange(0, 3).Draw(t, "digits")
		number := func(name string, zero bool) Number {
			n := rapid.IntRange(-2000, 2000).Filter(func(n int) bool { return zero || n != 0 }).Draw(t, name)
			return Number{Value: float64(n) / math.Pow10(digits), Decimals: digits}
		}
		a, b := number("a", true).span(), number("b", false).span()
		r := quotient(a, b)
		if !(r.Low <= r.High) {
			t.Fatalf("%v by %v is %v", a, b, r)
		}
		low, high := math.Inf(1), math.Inf(-1)
		for i := range 11 {
			for j := range 11 {
				q := (a.Low + (a.High-a.Low)*float64(i)/10) / (b.Low + (b.High-b.Low)*float64(j)/10)
				low, high = min(low, q), max(high, q)
			}
		}
		if near := func(x, y float64) bool { return math.Abs(x-y) <= 1e-9*(1+math.Abs(x)) }; !near(low, r.Low) || !near(high, r.High) {
			t.Fatalf("%v by %v is %v, and %v to %v is reached", a, b, r, low, high)
		}
	})
}

func TestVerifySigns(t *testing.T) {
	for _, c := range []struct {
		a, b, value, relation string
		holds                 bool
	}{
		{"-10", "3", "-3.3", "ratio", true}, {"10", "-3", "-3.3", "ratio", true}, {"-10", "-3", "3.3", "ratio", true}, {"-10", "3", "3.3", "ratio", false},
		{"-10", "3", "-2.7", "ratio", true}, {"-10", "3", "-4.2", "ratio", true}, {"-10", "3", "-4.5", "ratio", false}, {"-10", "3", "-2.5", "ratio", false},
		{"0", "3", "0", "ratio", true}, {"0", "3", "-0.1", "ratio", true}, {"0", "3", "-0.4", "ratio", false},
		{"-7", "15", "-46.7", "share", true}, {"7", "-15", "-46.7", "share", true}, {"-7", "-15", "46.7", "share", true}, {"-7", "15", "46.7", "share", false}, {"0", "15", "0", "share", true},
		{"-5", "-10", "5", "difference", true}, {"-5", "10", "-15", "difference", true},
	} {
		l := must[*Ledger](t)(Read(strings.NewReader(checked(c.a, c.b, c.value, c.relation))))
		if v := l.Verify()[0]; v.Holds != c.holds || v.Computed.Low > v.Computed.High {
			t.Errorf("%s of %s and %s is %s: holds %v (%+v)", c.relation, c.a, c.b, c.value, v.Holds, v.Computed)
		}
	}
	about := "ledger: 1\nclaims:\n  - {id: a, kind: other, value: %s}\n  - {id: v, kind: other, value: %s, bound: about}\nchecks:\n  - {says: s, value: v, equal: a}\n"
	for _, c := range []struct {
		a, v  string
		holds bool
	}{{"104", "100", true}, {"106", "100", false}, {"-104", "-100", true}, {"-96", "-100", true}, {"-106", "-100", false}, {"-94", "-100", false}} {
		l := must[*Ledger](t)(Read(strings.NewReader(fmt.Sprintf(about, c.a, c.v))))
		if v := l.Verify()[0]; v.Holds != c.holds {
			t.Errorf("%s is about %s: holds %v", c.a, c.v, v.Holds)
		}
	}
}

// What divides by a number that is 0 as far as its digits go has no outcome.
func TestUndefined(t *testing.T) {
	for _, relation := range []string{"ratio", "share"} {
		for _, b := range []string{"0", "0.0", "-0", "0.00"} {
			_, err := Read(strings.NewReader(checked("5", b, "5", relation)))
			if err == nil || !strings.Contains(err.Error(), "check 1 (s): undefined, since it divides by b, which is "+b) {
				t.Errorf("%s by %s: error %v", relation, b, err)
			}
		}
		if _, err := Read(strings.NewReader(checked("5", "0.1", "5", relation))); err != nil {
			t.Error(err)
		}
	}
	if _, err := Read(strings.NewReader(checked("5", "0", "5", "difference"))); err != nil {
		t.Error(err)
	}
}

// Numbers from which infinity could follow, which JSON has no word for.
func TestNumberBounds(t *testing.T) {
	long := "1" + strings.Repeat("0", 300)
	for _, text := range []string{long, "-" + long, "0." + strings.Repeat("0", 300) + "1", "1000000000000001"} {
		if _, err := Read(strings.NewReader(checked(text, "5", "5", "ratio"))); err == nil || !strings.Contains(err.Error(), "line 4: ") || !strings.Contains(err.Error(), "out of range") || len(err.Error()) > 500 {
			t.Errorf("%s: error %v", text, err)
		}
	}
	for _, relation := range []string{"ratio", "share", "sum", "mean", "difference"} {
		l := must[*Ledger](t)(Read(strings.NewReader(checked("-1000000000000000", "0.000000000000001", "5", relation))))
		if _, err := json.Marshal(Make(l, nil)); err != nil {
			t.Errorf("%s: %v", relation, err)
		}
	}
}
