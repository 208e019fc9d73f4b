// Package linker tells which shared libraries the system's dynamic linker
// would find, and ends the program with a clear message where libffi is
// missing: the binding to llama.cpp loads it before main starts, and panics.
//
// For that to come first, the package initializes before the binding does. Go
// initializes packages in the order of their import paths, each after those it
// imports. The binding needs package os; this one may import nothing that
// does, and stands before os in that order.
package linker
