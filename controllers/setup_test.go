package controllers

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// An apiserver that does not answer is waited for; what it answers counts.
func TestPatientlyAsksAnApiserverThatIsAway(t *testing.T) {
	gone := fmt.Errorf("find out whether nodes may be read: %w",
		errors.New("dial tcp 10.0.0.1:443: connect: connection refused"))
	forbidden := fmt.Errorf("look: %w", apierrors.NewForbidden(schema.GroupResource{}, "nodes", errors.New("no role")))
	for name, last := range map[string]error{"it comes": nil, "it refuses": forbidden} {
		answers := []error{gone, last}
		err := patiently(t.Context(), logr.Discard(), func() error {
			defer func() { answers = answers[1:] }()
			return answers[0]
		})
		if err != last || len(answers) != 0 {
			t.Errorf("%s: %v, and %d answers were not asked for", name, err, len(answers))
		}
	}
	for err, want := range map[error]bool{
		gone: true, apierrors.NewServiceUnavailable("starting"): true, apierrors.NewInternalError(gone): true,
		apierrors.NewTooManyRequests("later", 1): true, forbidden: false, apierrors.NewUnauthorized("who"): false,
	} {
		if away(err) != want {
			t.Errorf("%v: away is %t", err, !want)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := patiently(ended, logr.Discard(), func() error { return gone }); !errors.Is(err, gone) {
		t.Errorf("at the end: %v", err)
	}
}
