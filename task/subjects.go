package task

// subject is one of mmlu's, with the sizes of its splits.
type subject struct {
	name             string
	test, validation int
}

// subjects lists mmlu's 57 by name; the test splits hold 14042 instances, the
// validation splits 1531.
func subjects() []subject {
	return []subject{
		{"abstract_algebra", 100, 11},
		{"anatomy", 135, 14},
		{"astronomy", 152, 16},
		{"business_ethics", 100, 11},
		{"clinical_knowledge", 265, 29},
		{"college_biology", 144, 16},
		{"college_chemistry", 100, 8},
		{"college_computer_science", 100, 11},
		{"college_mathematics", 100, 11},
		{"college_medicine", 173, 22},
		{"college_physics", 102, 11},
		{"computer_security", 100, 11},
		{"conceptual_physics", 235, 26},
		{"econometrics", 114, 12},
		{"electrical_engineering", 145, 16},
		{"elementary_mathematics", 378, 41},
		{"formal_logic", 126, 14},
		{"global_facts", 100, 10},
		{"high_school_biology", 310, 32},
		{"high_school_chemistry", 203, 22},
		{"high_school_computer_science", 100, 9},
		{"high_school_european_history", 165, 18},
		{"high_school_geography", 198, 22},
		{"high_school_government_and_politics", 193, 21},
		{"high_school_macroeconomics", 390, 43},
		{"high_school_mathematics", 270, 29},
		{"high_school_microeconomics", 238, 26},
		{"high_school_physics", 151, 17},
		{"high_school_psychology", 545, 60},
		{"high_school_statistics", 216, 23},
		{"high_school_us_history", 204, 22},
		{"high_school_world_history", 237, 26},
		{"human_aging", 223, 23},
		{"human_sexuality", 131, 12},
		{"international_law", 121, 13},
		{"jurisprudence", 108, 11},
		{"logical_fallacies", 163, 18},
		{"machine_learning", 112, 11},
		{"management", 103, 11},
		{"marketing", 234, 25},
		{"medical_genetics", 100, 11},
		{"miscellaneous", 783, 86},
		{"moral_disputes", 346, 38},
		{"moral_scenarios", 895, 100},
		{"nutrition", 306, 33},
		{"philosophy", 311, 34},
		{"prehistory", 324, 35},
		{"professional_accounting", 282, 31},
		{"professional_law", 1534, 170},
		{"professional_medicine", 272, 31},
		{"professional_psychology", 612, 69},
		{"public_relations", 110, 12},
		{"security_studies", 245, 27},
		{"sociology", 201, 22},
		{"us_foreign_policy", 100, 11},
		{"virology", 166, 18},
		{"world_religions", 171, 19},
	}
}
