package openai

import (
	"context"
	"sync"
	"time"
)

// limiter bounds the calls in progress. The bound grows by one when as many
// calls in a row as it allows have succeeded, and halves when one fails, once a
// round trip.
type limiter struct {
	mu      sync.Mutex
	most    int
	bound   int
	busy    int
	good    int       // successes since the bound changed
	cut     time.Time // when the bound was halved last
	until   time.Time // no call starts before
	waiting []chan struct{}
}

// startBound is the bound at the beginning.
const startBound = 4

func newLimiter(most int) *limiter { return &limiter{most: most, bound: min(startBound, most)} }

// enter waits for a turn. done is told whether the call succeeded and for how
// long the server asked to be left alone.
func (l *limiter) enter(ctx context.Context) (done func(ok bool, after time.Duration), err error) {
	for {
		l.mu.Lock()
		pause := time.Until(l.until)
		if pause <= 0 && l.busy < l.bound {
			l.busy++
			l.mu.Unlock()
			return l.leave(time.Now()), nil
		}
		var turn chan struct{}
		if pause <= 0 {
			turn = make(chan struct{})
			l.waiting = append(l.waiting, turn)
			pause = time.Minute
		}
		l.mu.Unlock()
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			l.forget(turn)
			return nil, context.Cause(ctx)
		case <-turn:
		case <-timer.C:
			l.forget(turn)
		}
		timer.Stop()
	}
}

// leave returns the function that ends a call that has begun at start.
func (l *limiter) leave(start time.Time) func(ok bool, after time.Duration) {
	return func(ok bool, after time.Duration) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.busy--
		switch now := time.Now(); {
		case ok:
			if l.good++; l.good >= l.bound && l.bound < l.most {
				l.bound++
				l.good = 0
			}
		case start.After(l.cut): // others that began before it tell nothing new
			l.bound = max(1, l.bound/2)
			l.cut = now
			l.good = 0
		}
		if after > 0 {
			if until := time.Now().Add(after); until.After(l.until) {
				l.until = until
			}
		}
		l.wake()
	}
}

// wake lets as many go on as there is room for.
func (l *limiter) wake() {
	for n := l.bound - l.busy; n > 0 && len(l.waiting) > 0; n-- {
		close(l.waiting[0])
		l.waiting = l.waiting[1:]
	}
}

// forget takes one out of those that wait; if it was woken already, another is.
func (l *limiter) forget(turn chan struct{}) {
	if turn == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, w := range l.waiting {
		if w == turn {
			l.waiting = append(l.waiting[:i:i], l.waiting[i+1:]...)
			return
		}
	}
	l.wake()
}
