package apply

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// What comes together with a lost race is told; the race is not.
func TestFailureIsWhatIsNeitherARaceNorAWait(t *testing.T) {
	raced := explain("write record first--view",
		apierrors.NewConflict(schema.GroupResource{}, "first--view", errors.New("changed")))
	waits := fmt.Errorf("evict pod p: %w: one is away", ErrBudget)
	refused := explain("apply Service s", apierrors.NewForbidden(schema.GroupResource{}, "s", errors.New("no role")))
	if !errors.Is(raced, ErrStale) || !apierrors.IsConflict(raced) || errors.Is(refused, ErrStale) {
		t.Fatalf("a race is %v, and a refusal %v", raced, refused)
	}
	for name, tt := range map[string]struct {
		err  error
		want error // of which the text is left, or nil
	}{
		"nothing":              {nil, nil},
		"a race":               {raced, nil},
		"a race, named":        {fmt.Errorf("take the step: %w", raced), nil},
		"races and waits":      {errors.Join(raced, errors.Join(waits, raced)), nil},
		"a refusal":            {refused, refused},
		"a refusal and a race": {errors.Join(raced, refused), refused},
		"deep below": {
			errors.Join(raced, fmt.Errorf("all: %w", errors.Join(errors.Join(waits, refused), raced))), refused,
		},
	} {
		got := Failure(tt.err)
		if tt.want == nil && got != nil ||
			tt.want != nil &&
				(got == nil || !errors.Is(got, tt.want) || !strings.Contains(got.Error(), tt.want.Error())) {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
	if got := Failure(errors.Join(raced, refused)).Error(); got != refused.Error() {
		t.Errorf("the race is left in %q", got)
	}
}
