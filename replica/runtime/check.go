package runtime

import (
	"fmt"

	"github.com/georegister/georegister/replica/register"
)

// check refuses what no protocol can serve.
func (o *Options) check(op *register.Operation) error {
	limits := o.Limits
	if err := o.checkAfter(op); err != nil {
		return err
	}
	if op.Kind == register.Fence {
		if op.Key != "" {
			return fmt.Errorf("a fence has no key, and this one has %.64q; name in After what it fences", op.Key)
		}
		return nil
	}
	if err := limits.CheckKey(op.Key); err != nil {
		return err
	}
	switch op.Kind {
	case register.Read:
		return nil
	case register.Write:
		return limits.CheckValue(len(op.Value))
	case register.RMW:
		if err := limits.CheckArguments(op.Call.Args); err != nil {
			return err
		}
		if op.Call.MaxValueBytes <= 0 || op.Call.MaxValueBytes > limits.ValueBytes {
			op.Call.MaxValueBytes = limits.ValueBytes
		}
		return o.Functions.Check(op.Call)
	}
	return fmt.Errorf("operation kind %d is unknown; use read, write, rmw or fence", op.Kind)
}

// checkAfter refuses what no session of this cluster depends on. It can't tell all of it: whoever may write may also
// make up what was written.
func (o *Options) checkAfter(op *register.Operation) error {
	switch n := len(op.After); {
	case n == 0:
		return nil
	case !o.regular:
		return fmt.Errorf("the operation comes after what was read of another cluster: protocol %s of this one "+
			"answers with nothing to depend on; "+
			"fence there first, and leave After out", o.Protocol)
	case n > register.MaxDependencies:
		return fmt.Errorf("the operation comes after %d others, and carries %d at most; fence first", n,
			register.MaxDependencies)
	}
	for i := range op.After {
		d := &op.After[i]
		if err := d.Check(o.Limits); err != nil {
			return err
		}
		// An rmw of what was never written has no writer.
		if written := d.Carstamp.Timestamp > 0; written != (d.Carstamp.Writer.Member() > 0) {
			return fmt.Errorf("dependency on %.64q: no member writes under carstamp %v; send what an answer had",
				d.Key, d.Carstamp)
		}
	}
	return nil
}
