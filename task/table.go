package task

import (
	"strings"

	"olmes"
)

// table is the standard's table 2, with what its authors' code and requests
// settle where the paper is silent.
func table() []Task {
	tasks := []Task{
		arc("arc_challenge", "ARC-Challenge", 1172, 299, olmes.PMI,
			"Mercury_SC_415702", "MCAS_2009_5_6516", "Mercury_7233695", "Mercury_7041615", "MCAS_1998_4_3"),
		arc("arc_easy", "ARC-Easy", 2376, 570, olmes.Character,
			"MCAS_2007_8_5189", "Mercury_SC_401169", "MCAS_2004_8_27", "NYSEDREGENTS_2006_8_10", "Mercury_7013388"),
		boolq(), csqa(), hellaswag(),
	}
	for _, s := range subjects() {
		tasks = append(tasks, mmlu(s))
	}
	return append(tasks, openbookqa(), piqa(), socialiqa(), winogrande())
}

// convertedFiles is the hub's own branch of Parquet copies, for datasets that
// are no Parquet files themselves.
const convertedFiles = "refs/convert/parquet"

// Reasons that several tasks share.
const (
	testIsPublic  = "The test split's answers are public, so it is used, as the paper rules."
	testIsHidden  = "The test split's answers are not public, so the validation split is used, as the paper rules."
	sampleIsTaken = "The split has more than 1500 instances, so Python's Random(1234).sample takes 1000 of them; they keep the order in which it returns them."
	allAreTaken   = "The split has at most 1500 instances, so all of them are evaluated, in file order."
	handPicked    = "Five examples of the training split that the paper's authors chose by hand: clear, of good quality, and with the right answers spread over the labels."
	unnamed       = handPicked + " The dataset has no ids, so each is named by the SHA-256 of its text."
	generalForm   = "The question stands after \"Question: \" and the answer after \"Answer:\"; in the list each label has one space before it, so that its token there is the one to be predicted."
	byCharacter   = "Answers of different lengths compete on their average log-probability per character; unlike per token, that does not depend on the tokenizer."
	byPMI         = "Answers often are rare phrases, so each one's log-probability is measured against that of the same answer without the question."
	byNothing     = "All answers score the same words or are single common words, so their log-probabilities compare as they are."
)

// general is the form that most tasks share.
func general() olmes.Template {
	form := olmes.Form{Prefix: "Question: ", Cue: "\nAnswer:"}
	return olmes.Template{
		Separator:     "\n\n",
		CF:            form,
		MCF:           form,
		Labels:        "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
		LabelStart:    "\n ",
		LabelEnd:      ". ",
		Gap:           " ",
		Unconditional: "Answer:",
	}
}

func arc(name, config string, test, validation int, n olmes.Normalization, fewShot ...string) Task {
	t := Task{
		Name: name, Split: "test", Size: test,
		Splits:  []Split{{"test", test}, {"validation", validation}},
		FewShot: fewShot, FewShotSplit: "train",
		Normalization: n, PMI: n == olmes.PMI,
		Template: general(),
		Hub:      Hub{"allenai/ai2_arc", "210d026faf9955653af8916fad021475a3f00453", config + "/{split}-00000-of-00001.parquet"},
		layout:   labelled,
		Why: Why{
			Split:         testIsPublic,
			Sampling:      allAreTaken,
			FewShot:       handPicked,
			Template:      generalForm + " Labels are A to E by position, also where the dataset numbers its choices; questions with three or five choices keep them.",
			Normalization: byPMI,
		},
	}
	if test > sampleAbove {
		t.Sample = sampleSize
		t.Why.Sampling = sampleIsTaken
		t.Why.Normalization = byCharacter
	}
	return t
}

func boolq() Task {
	tpl := general()
	tpl.PassageEnd = "\n"
	tpl.CF.Suffix, tpl.MCF.Suffix = "?", "?"
	return Task{
		Name: "boolq", Split: "validation", Size: 3270, Sample: sampleSize,
		Splits:  []Split{{"validation", 3270}},
		FewShot: []string{"0", "1", "7", "11", "3"}, FewShotSplit: "train",
		Normalization: olmes.None,
		Template:      tpl,
		Hub:           Hub{"aps/super_glue", "5234c61e804e85e5994b14b002fa9ec34487bcfb", "boolq/{split}-00000-of-00001.parquet"},
		layout:        yesNo,
		Why: Why{
			Split:         testIsHidden,
			Sampling:      sampleIsTaken,
			FewShot:       handPicked,
			Template:      "The passage comes first, with the title of its article as SuperGLUE publishes it, then the question with its question mark; the choices are yes and no.",
			Normalization: byNothing,
		},
	}
}

func csqa() Task {
	return Task{
		Name: "csqa", Split: "validation", Size: 1221,
		Splits: []Split{{"validation", 1221}},
		FewShot: []string{
			"61fe6e879ff18686d7552425a36344c8", "02e821a3e53cb320790950aab4489e85", "23505889b94e880c3e89cff4ba119860",
			"a76403b4921a9281b6ee2a7241a5ec9f", "6dc921840aa1e5dda3333b79007f630b",
		},
		FewShotSplit:  "train",
		Normalization: olmes.PMI, PMI: true,
		Template: general(),
		Hub:      Hub{"tau/commonsense_qa", "94630fe30dad47192a8546eb75f094926d47e155", "data/{split}-00000-of-00001.parquet"},
		layout:   labelled,
		Why: Why{
			Split: testIsHidden, Sampling: allAreTaken, FewShot: handPicked, Template: generalForm, Normalization: byPMI,
		},
	}
}

func hellaswag() Task {
	tpl := general()
	tpl.CF = olmes.Form{}
	tpl.MCF = olmes.Form{Suffix: "\nChoose the best continuation:", Cue: "\nAnswer:"}
	tpl.Cleaning = olmes.WikiHow
	return Task{
		Name: "hellaswag", Split: "validation", Size: 10042, Sample: sampleSize,
		Splits:  []Split{{"validation", 10042}},
		FewShot: []string{"12", "39", "9", "47", "38"}, FewShotSplit: "train",
		Normalization: olmes.Character,
		Template:      tpl,
		Hub:           Hub{"Rowan/hellaswag", "218ec52e09a7e7462a5400043bb9a69a41d06b76", "data/{split}-00000-of-00001.parquet"},
		layout:        activity,
		Why: Why{
			Split:         testIsHidden,
			Sampling:      sampleIsTaken,
			FewShot:       handPicked + " Ids repeat in this dataset; of two rows with one id the digest tells which.",
			Template:      "The text itself is continued, so the cloze form has no question and no cue; marks left over from the web pages are cleaned away, in the multiple-choice form from the whole query at once.",
			Normalization: byCharacter,
		},
	}
}

func mmlu(s subject) Task {
	tpl := general()
	// Subjects are names of folders; text has spaces.
	tpl.Description = "The following are multiple choice questions (with answers) about " + strings.ReplaceAll(s.name, "_", " ") + ".\n\n"
	tpl.TrimQuestion = true
	return Task{
		Name: "mmlu_" + s.name, Group: "mmlu", Subject: s.name, Split: "test", Size: s.test,
		Splits:  []Split{{"test", s.test}, {"validation", s.validation}},
		FewShot: []string{"0", "1", "2", "3", "4"}, FewShotSplit: "dev",
		Normalization: olmes.Character,
		Template:      tpl,
		Hub:           Hub{"cais/mmlu", "c30699e8356da336a370243923dbaf21066bb9fe", s.name + "/{split}-00000-of-00001.parquet"},
		layout:        subjectRow,
		Why: Why{
			Split:         testIsPublic,
			Sampling:      "MMLU is never subsampled: its score is the mean over 57 subjects, some of them small.",
			FewShot:       "The subject's five development rows in file order, as the dataset's authors and everyone since use them.",
			Template:      generalForm + " MMLU keeps its own first line that names the subject; no other task has an instruction. Questions are trimmed.",
			Normalization: byCharacter,
		},
	}
}

func openbookqa() Task {
	return Task{
		Name: "openbookqa", Split: "test", Size: 500,
		Splits:  []Split{{"test", 500}, {"validation", 500}},
		FewShot: []string{"7-584", "7-870", "9-732", "9-782", "8-72"}, FewShotSplit: "train",
		Normalization: olmes.PMI, PMI: true,
		Template: general(),
		Hub:      Hub{"allenai/openbookqa", "388097ea7776314e93a529163e0fea805b8a6454", "main/{split}-00000-of-00001.parquet"},
		layout:   stem,
		Why: Why{
			Split: testIsPublic, Sampling: allAreTaken, FewShot: handPicked, Template: generalForm, Normalization: byPMI,
		},
	}
}

func piqa() Task {
	tpl := general()
	tpl.CF.Prefix, tpl.MCF.Prefix = "Goal: ", "Goal: "
	return Task{
		Name: "piqa", Split: "validation", Size: 1838, Sample: sampleSize,
		Splits:        []Split{{"validation", 1838}},
		FewShot:       byDigest("piqa"),
		FewShotSplit:  "train",
		Normalization: olmes.Character,
		Template:      tpl,
		Hub:           Hub{"ybisk/piqa", convertedFiles, "plain_text/{split}/0000.parquet"},
		layout:        goal,
		Why: Why{
			Split:         testIsHidden,
			Sampling:      sampleIsTaken,
			FewShot:       unnamed,
			Template:      "As the general form, but the dataset speaks of a goal and not of a question. Choices are not trimmed; some end in a space.",
			Normalization: byCharacter,
		},
	}
}

func socialiqa() Task {
	return Task{
		Name: "socialiqa", Split: "validation", Size: 1954, Sample: sampleSize,
		Splits:        []Split{{"validation", 1954}},
		FewShot:       byDigest("socialiqa"),
		FewShotSplit:  "train",
		Normalization: olmes.Character,
		Template:      general(),
		Hub:           Hub{"allenai/social_i_qa", convertedFiles, "default/{split}/0000.parquet"},
		layout:        social,
		Why: Why{
			Split:         testIsHidden,
			Sampling:      sampleIsTaken,
			FewShot:       unnamed,
			Template:      generalForm + " The question is the situation, a space, and what is asked about it.",
			Normalization: byCharacter,
		},
	}
}

func winogrande() Task {
	tpl := general()
	tpl.CF = olmes.Form{}
	tpl.MCF.Prefix = "Fill in the blank: "
	tpl.Blank = "___"
	return Task{
		Name: "winogrande", Split: "validation", Size: 1267,
		Splits:        []Split{{"validation", 1267}},
		FewShot:       byDigest("winogrande"),
		FewShotSplit:  "train",
		Normalization: olmes.None,
		Template:      tpl,
		Hub:           Hub{"allenai/winogrande", "01e74176c63542e6b0bcb004dcdea22d94fb67b5", "winogrande_xl/{split}-00000-of-00001.parquet"},
		layout:        sentence,
		Why: Why{
			Split:         testIsHidden,
			Sampling:      allAreTaken,
			FewShot:       unnamed,
			Template:      "In the cloze form each option completes the sentence up to the blank and the rest of the sentence is scored, so the context varies and the continuation is the same; the multiple-choice form shows the blank as ___.",
			Normalization: byNothing,
		},
	}
}
