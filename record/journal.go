package record

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
)

// ChunkScores is what one chunk of the run's work gave.
type ChunkScores struct {
	Chunk    string    // the chunk's id
	Env      int       // index into the record's environments, from Writer.Environment
	Computed int       // tokens decoded for it; 0 where another run's scores were taken
	LogProbs []float64 // nats, one per wanted value in the chunk's order; NaN and infinities are kept
}

// journalLine is one line of the journal: a header, an environment or a chunk.
type journalLine struct {
	Journal     int          `json:"journal,omitempty"` // header: the format
	ID          string       `json:"id,omitempty"`      // header: the run's id
	Environment *Environment `json:"environment,omitempty"`
	Chunk       string       `json:"chunk,omitempty"`
	Env         int          `json:"env"`
	Computed    int          `json:"computed"`
	LogProbs    string       `json:"logprobs,omitempty"` // base64 of little-endian float64
}

// sumLen is the number of hexadecimal digits of a line's checksum.
const sumLen = 32

// encodeLine returns a line with its checksum as last field and a newline.
func encodeLine(l journalLine) ([]byte, error) {
	b, err := json.Marshal(l)
	if err != nil {
		return nil, err
	}
	b = b[:len(b)-1]
	sum := lineSum(b)
	return fmt.Appendf(b, ",\"sum\":\"%s\"}\n", sum), nil
}

// lineSum is the checksum of a line up to its checksum.
func lineSum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])[:sumLen]
}

// decodeLine checks and reads a line without its newline.
func decodeLine(b []byte) (journalLine, error) {
	var l journalLine
	const head, tail = `,"sum":"`, `"}`
	cut := len(b) - len(head) - sumLen - len(tail)
	if cut < 1 || string(b[cut:cut+len(head)]) != head || !bytes.HasSuffix(b, []byte(tail)) {
		return l, fmt.Errorf("no checksum")
	}
	if string(b[cut+len(head):len(b)-len(tail)]) != lineSum(b[:cut]) {
		return l, fmt.Errorf("wrong checksum")
	}
	if err := json.Unmarshal(b, &l); err != nil {
		return l, err
	}
	return l, nil
}

func encodeFloats(v []float64) string {
	b := make([]byte, 0, 8*len(v))
	for _, f := range v {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(f))
	}
	return base64.StdEncoding.EncodeToString(b)
}

func decodeFloats(s string) ([]float64, error) {
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return nil, err
	}
	if len(b)%8 != 0 {
		return nil, fmt.Errorf("%d bytes are no float64s", len(b))
	}
	out := make([]float64, len(b)/8)
	for i := range out {
		out[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
	}
	return out, nil
}

// journal is what a journal file says.
type journal struct {
	envs   []Environment
	chunks []ChunkScores
	good   int64 // bytes up to the end of the last good line
}

// parseJournal reads a journal of the run with the given id. A last line that
// is cut off or does not match its checksum is what a crash leaves, and is
// left out; damage before it is an error that names the line.
func parseJournal(data []byte, id string) (journal, error) {
	var j journal
	seen := map[string]bool{}
	for number := 1; int(j.good) < len(data); number++ {
		rest := data[j.good:]
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			return j, nil // torn
		}
		last := int(j.good)+end+1 == len(data)
		l, err := decodeLine(rest[:end])
		if err != nil {
			if last {
				return j, nil // torn: its newline reached the disk before the rest
			}
			return j, fmt.Errorf("%w: %s line %d: %w; its chunks cannot be trusted, remove the folder and start again", ErrDamaged, journalName, number, err)
		}
		damaged := func(format string, args ...any) error {
			return fmt.Errorf("%w: %s line %d: %s", ErrDamaged, journalName, number, fmt.Sprintf(format, args...))
		}
		switch {
		case number == 1:
			if l.Journal > Format {
				return j, fmt.Errorf("%w: %s has format %d, this program knows %d; use a newer one", ErrNewer, journalName, l.Journal, Format)
			}
			if l.Journal < 1 {
				return j, damaged("not the beginning of a journal")
			}
			if l.ID != id {
				return j, damaged("it belongs to run %s", short(l.ID))
			}
		case l.Environment != nil:
			if l.Env != len(j.envs) {
				return j, damaged("environment %d follows %d", l.Env, len(j.envs)-1)
			}
			j.envs = append(j.envs, *l.Environment)
		case l.Chunk != "":
			logprobs, err := decodeFloats(l.LogProbs)
			if err != nil {
				return j, damaged("%v", err)
			}
			if l.Env < 0 || l.Env >= len(j.envs) {
				return j, damaged("environment %d is not in it", l.Env)
			}
			if seen[l.Chunk] {
				return j, damaged("chunk %s is there twice", short(l.Chunk))
			}
			seen[l.Chunk] = true
			j.chunks = append(j.chunks, ChunkScores{Chunk: l.Chunk, Env: l.Env, Computed: l.Computed, LogProbs: logprobs})
		default:
			return j, damaged("neither a chunk nor an environment")
		}
		j.good += int64(end) + 1
	}
	return j, nil
}

// short is how ids are shown.
func short(id string) string {
	if len(id) > ShortID {
		return id[:ShortID]
	}
	return id
}

// ShortID is the number of digits of an id that are shown; any prefix that is
// unique is accepted.
const ShortID = 12
