// Package artifact fetches the pinned files that a run needs and keeps them in
// a cache: wheels and source distributions through the user's pip, packages
// through the user's npm, models and datasets through the Hugging Face Hub.
//
// Steps of use:
//
//	store, err := artifact.Open("")                  // the user's cache
//	path, err := store.Pip(ctx, artifact.Oracle())   // fetched once, checked each time
//
// Registries are reached only through their own clients, which use the user's
// mirrors, proxies and credentials; the package holds no registry's address.
// Every file is pinned by digest. Files arrive under a temporary name below
// the cache's own folder, are checked, and are then renamed, so that nothing
// half-written is ever found under a final name; a lock per artifact keeps two
// processes apart. No code of a fetched file is run: pip checks the digest
// before it opens a file, builds nothing, and npm runs no scripts.
//
// Errors say which step failed on which file, and have a Hint method that says
// what to do. Secrets (passwords in URLs, tokens, values of variables that are
// named like secrets) are cut from every text that leaves the package.
package artifact
