// Package olmes holds the nouns of the Open Language Model Evaluation Standard
// (OLMES, arXiv 2406.08446): what is asked of a model and what comes back.
//
// The package has no behaviour beyond these values and touches no disk, network
// or clock. The way of the data through the other packages is
//
//	task (instances) -> prompt (requests) -> trie -> engine (log-probabilities) -> score -> record
//
// All log-probabilities in this module are natural logarithms (nats).
package olmes
