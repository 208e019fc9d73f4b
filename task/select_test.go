package task

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"olmes"
)

func TestSelect(t *testing.T) {
	for _, c := range []struct {
		specs string
		want  string // number of selections, first name and formulations, last name
	}{
		{"arc_easy", "1 arc_easy[] arc_easy"},
		{"arc_easy:cf", "1 arc_easy[cf] arc_easy"},
		{"arc_easy:mcf", "1 arc_easy[mcf] arc_easy"},
		{"arc_easy:mcf,arc_easy:cf", "1 arc_easy[cf mcf] arc_easy"},
		{"arc_easy:mcf,arc_easy", "1 arc_easy[] arc_easy"},
		{"arc_easy:rc::olmes", "1 arc_easy[cf] arc_easy"},
		{"arc_easy:mc::olmes", "1 arc_easy[mcf] arc_easy"},
		{"arc_easy::olmes", "1 arc_easy[] arc_easy"},
		{"winogrande,arc_challenge", "2 arc_challenge[] winogrande"},
		{"olmes", "66 arc_challenge[] winogrande"},
		{"core_9mcqa::olmes", "9 arc_challenge[] winogrande"},
		{"core_9mcqa:rc::olmes", "9 arc_challenge[cf] winogrande"},
		{"mmlu", "57 mmlu_abstract_algebra[] mmlu_world_religions"},
		{"mmlu::olmes", "57 mmlu_abstract_algebra[] mmlu_world_religions"},
		{"mmlu:mc::olmes,csqa", "58 csqa[] mmlu_world_religions"},
		{"mmlu_anatomy:mc::olmes", "1 mmlu_anatomy[mcf] mmlu_anatomy"},
		{"mmlu_anatomy,mmlu", "57 mmlu_abstract_algebra[] mmlu_world_religions"},
		{"core_9mcqa,mmlu", "66 arc_challenge[] winogrande"},
	} {
		got, err := Select(strings.Split(c.specs, ","))
		if err != nil {
			t.Errorf("%s: %v", c.specs, err)
			continue
		}
		if s := fmt.Sprintf("%d %s%v %s", len(got), got[0].Task.Name, got[0].Formulations, got[len(got)-1].Task.Name); s != c.want {
			t.Errorf("%s: got %s, want %s", c.specs, s, c.want)
		}
	}
}

func TestSelectErrors(t *testing.T) {
	for spec, want := range map[string]string{
		"arc_esay":                `did you mean "arc_easy"?`,
		"arc":                     `did you mean "arc_easy"?`,
		"ARC-Easy":                `did you mean "arc_easy"?`,
		"commonsense_qa":          `did you mean`,
		"hella_swag":              `did you mean "hellaswag"?`,
		"anatomy":                 `did you mean "mmlu_anatomy"?`,
		"mmlu_astronmy:cf":        `did you mean "mmlu_astronomy"?`,
		"core9mcqa":               `did you mean "core_9mcqa"?`,
		"":                        `name is empty`,
		"arc_easy:gen":            `unknown formulation "gen"`,
		"arc_easy:mc::xlarge":     `unknown variant "::xlarge"`,
		"arc_easy:rc::olmes:full": `--all`,
	} {
		_, err := Select([]string{"csqa", spec})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", spec, err, want)
		}
	}
	_, err := Select([]string{"nosuch"})
	if e := new(UnknownError); !errors.As(err, &e) || e.Name != "nosuch" {
		t.Errorf("error %v is no UnknownError", err)
	}
}

func TestOrder(t *testing.T) {
	arc, _ := Lookup("arc_easy")
	if got := arc.Order(570); len(got) != 570 || got[0] != 0 || got[569] != 569 {
		t.Errorf("a split of 570 is not evaluated whole in file order: %d positions", len(got))
	}
	if got := arc.Order(1500); len(got) != 1500 {
		t.Errorf("a split of 1500 gives %d positions", len(got))
	}
	if got := arc.Order(1501); len(got) != 1000 {
		t.Errorf("a split of 1501 gives %d positions, want 1000", len(got))
	}
	if got := arc.Order(2376); len(got) != 1000 {
		t.Errorf("a split of 2376 gives %d positions, want 1000", len(got))
	}
	law, _ := Lookup("mmlu_professional_law")
	if got := law.Order(law.Size); len(got) != 1534 || got[1533] != 1533 {
		t.Errorf("mmlu is subsampled: %d positions", len(got))
	}
	// A limited run takes the first of one order, which holds every position
	// that the full run has, once.
	for _, task := range []Task{arc, law} {
		order, limited := task.Order(task.Size), task.LimitOrder(task.Size)
		seen := map[int]bool{}
		for _, i := range limited {
			seen[i] = true
		}
		for _, i := range order {
			if !seen[i] {
				t.Fatalf("%s: position %d of the full run is not in the limited order", task.Name, i)
			}
		}
		if len(limited) != len(order) || len(seen) != len(order) {
			t.Errorf("%s: %d positions in the limited order, %d in the full one", task.Name, len(limited), len(order))
		}
	}
}

func TestShare(t *testing.T) {
	for _, c := range []struct {
		sizes []int
		limit int
		want  string
	}{
		{[]int{3, 1, 5}, 0, "[0 0 0]"},
		{[]int{3, 1, 5}, 2, "[1 1 0]"},
		{[]int{3, 1, 5}, 5, "[2 1 2]"},
		{[]int{3, 1, 5}, 8, "[3 1 4]"},
		{[]int{3, 1, 5}, 100, "[3 1 5]"},
		{nil, 3, "[]"},
	} {
		if got := fmt.Sprint(share(c.sizes, c.limit)); got != c.want {
			t.Errorf("share(%v, %d) = %s, want %s", c.sizes, c.limit, got, c.want)
		}
	}
}

func TestNeedsBOS(t *testing.T) {
	for architecture, want := range map[string]bool{
		"gemma": true, "gemma2": true, "gemma3": true, "recurrent-gemma": true,
		"gemma3_text": true, "recurrent_gemma": true,
		"llama": false, "mistral": false, "gpt_neox": false, "olmo": false, "gemma4": false, "": false,
	} {
		if NeedsBOS(architecture) != want {
			t.Errorf("NeedsBOS(%q) = %v", architecture, !want)
		}
	}
}

func TestTable(t *testing.T) {
	names := map[string]bool{}
	for _, task := range Tasks() {
		if names[task.Name] {
			t.Errorf("%s is there twice", task.Name)
		}
		names[task.Name] = true
		for what, text := range map[string]string{
			"split": task.Why.Split, "sampling": task.Why.Sampling, "few-shot": task.Why.FewShot,
			"template": task.Why.Template, "normalization": task.Why.Normalization,
		} {
			if text == "" {
				t.Errorf("%s: no reason for its %s", task.Name, what)
			}
		}
		if n, ok := task.SizeOf(task.Split); !ok || n != task.Size || task.Splits[0].Name != task.Split {
			t.Errorf("%s: split %s has %d instances, table says %d", task.Name, task.Split, n, task.Size)
		}
		if task.PMI != (task.Normalization == olmes.PMI) {
			t.Errorf("%s: normalization %s, unconditional requests %v", task.Name, task.Normalization, task.PMI)
		}
	}
	if len(names) != 66 {
		t.Errorf("%d tasks, want 9 and 57 subjects", len(names))
	}
}

func TestLimit(t *testing.T) {
	selections, err := Select([]string{"arc_easy", "mmlu"})
	if err != nil {
		t.Fatal(err)
	}
	var tasks []Task
	var sizes []int
	for _, s := range selections {
		tasks = append(tasks, s.Task)
		sizes = append(sizes, s.Task.Size)
	}
	last := make([][]int, len(tasks))
	for _, limit := range []int{0, 1, 57, 60, 1200, 20000} {
		got := Limit(tasks, sizes, limit, false)
		if want := min(limit, 1000); len(got[0]) != want {
			t.Errorf("limit %d: %d of arc_easy, want %d", limit, len(got[0]), want)
		}
		total := 0
		for i := range got {
			if i > 0 {
				total += len(got[i])
			}
			if len(got[i]) < len(last[i]) || fmt.Sprint(got[i][:len(last[i])]) != fmt.Sprint(last[i]) {
				t.Fatalf("limit %d: %s does not start with what the smaller limit gave", limit, tasks[i].Name)
			}
		}
		if want := min(limit, 14042); total != want {
			t.Errorf("limit %d: %d of mmlu, want %d", limit, total, want)
		}
		last = got
	}
	for i, positions := range Limit(tasks, sizes, 3, true) {
		if len(positions) != 3 {
			t.Errorf("3 a subject: %d of %s", len(positions), tasks[i].Name)
		}
	}
	// The first three of Random(1234).sample(range(135), 135) in Python.
	if got := fmt.Sprint(Limit(tasks[2:3], sizes[2:3], 3, false)); got != "[[112 29 1]]" {
		t.Errorf("mmlu_anatomy: first positions %s", got)
	}
}
