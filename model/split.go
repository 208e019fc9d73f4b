package model

import (
	"fmt"
	"regexp"
	"strconv"
)

// splitName is how llama.cpp names the files of a split model.
var splitName = regexp.MustCompile(`^(.*)-(\d{5})-of-(\d{5})\.gguf$`)

// maxSplit is the most files a model may be split into here.
const maxSplit = 1000

// splitFiles returns the names of all files of the model that the named file
// belongs to, in order; of a model in one file, that name.
func splitFiles(name string) ([]string, error) {
	m := splitName.FindStringSubmatch(name)
	if m == nil {
		return []string{name}, nil
	}
	no, _ := strconv.Atoi(m[2])
	count, _ := strconv.Atoi(m[3])
	if no < 1 || no > count || count > maxSplit {
		return nil, fmt.Errorf("its name says it is file %d of %d", no, count)
	}
	var list []string
	for i := range count {
		list = append(list, fmt.Sprintf("%s-%05d-of-%05d.gguf", m[1], i+1, count))
	}
	return list, nil
}
