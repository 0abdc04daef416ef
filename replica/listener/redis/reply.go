package redis

import (
	"fmt"

	"github.com/georegister/georegister/replica/listener/operation"
	"github.com/georegister/georegister/replica/listener/redis/resp"
	"github.com/georegister/georegister/replica/register"
)

// appendReply appends the reply of a complete call and returns what became of the command.
func (k *call) appendReply(b []byte, protocol string) ([]byte, operation.Outcome) {
	if len(k.steps) == 0 {
		if k.refused {
			return append(b, k.text...), operation.Refused
		}
		return append(b, k.text...), operation.OK
	}
	if message, outcome := k.failure(protocol); outcome != operation.OK {
		return resp.AppendError(b, message), outcome
	}
	return k.render(b, k), operation.OK
}

// failure is the error reply of a call whose steps are answered, if any of them failed. The first word of
// the text is what clients match on:
//
//	TRYAGAIN  no quorum answered in time, and the command certainly has no effect: it may be repeated
//	UNKNOWN   the command may have taken effect, or may yet, or did in part
//	ERR       the command can't be served as it is, and has no effect
func (k *call) failure(protocol string) (message string, outcome operation.Outcome) {
	var worst register.Result
	applied := 0
	for i := range k.steps {
		s := &k.steps[i]
		switch became := operation.OutcomeOf(s.result); {
		case became > outcome:
			worst, outcome = s.result, became
		case became == operation.OK && s.Op.Kind != register.Read:
			applied++
		}
	}
	switch {
	case outcome == operation.OK:
		return "", outcome
	case applied > 0:
		return fmt.Sprintf("UNKNOWN outcome: %d of %d keys were changed, for the others: %s", applied, len(k.steps),
			worst.Message), operation.Unknown
	}
	return errorText(worst, protocol), outcome
}

// errorText is a failed result as a Redis error.
func errorText(result register.Result, protocol string) string {
	switch result.Status {
	case register.Failed, register.Invalid:
		return "ERR " + result.Message
	case register.Unsupported:
		return fmt.Sprintf("ERR not supported by protocol %s: %s", protocol, result.Message)
	case register.Unavailable:
		return "TRYAGAIN no quorum answered in time, the command has no effect: " + result.Message
	}
	return "UNKNOWN outcome: the command may have taken effect, or may yet: " + result.Message
}

// Renderings of replies from results; all steps are OK.

func renderValue(b []byte, k *call) []byte { return appendValue(b, k, k.steps[0].result.Value) }

func appendValue(b []byte, k *call, v register.Value) []byte {
	if !v.Present() {
		return resp.AppendNull(b, k.version)
	}
	return resp.AppendBulk(b, v)
}

func renderOK(b []byte, _ *call) []byte { return resp.AppendSimple(b, "OK") }

// renderInt is for functions that reply with a decimal integer.
func renderInt(b []byte, k *call) []byte {
	return append(append(append(b, ':'), k.steps[0].result.Value...), '\r', '\n')
}

// renderOKOrNull is for functions that reply 1 or 0.
func renderOKOrNull(b []byte, k *call) []byte {
	if string(k.steps[0].result.Value) == "1" {
		return resp.AppendSimple(b, "OK")
	}
	return resp.AppendNull(b, k.version)
}

func renderLength(b []byte, k *call) []byte {
	return resp.AppendInt(b, int64(len(k.steps[0].result.Value)))
}

func renderType(b []byte, k *call) []byte {
	if k.steps[0].result.Value.Present() {
		return resp.AppendSimple(b, "string")
	}
	return resp.AppendSimple(b, "none")
}

func renderValues(b []byte, k *call) []byte {
	b = resp.AppendArray(b, len(k.steps))
	for i := range k.steps {
		b = appendValue(b, k, k.steps[i].result.Value)
	}
	return b
}

// renderRange follows GETRANGE: both ends are included, negative ones count from the end of the value.
func renderRange(b []byte, k *call) []byte {
	value := k.steps[0].result.Value
	size := int64(len(value))
	start, end := k.start, k.end
	reversed := start < 0 && end < 0 && start > end
	if start < 0 {
		start = max(size+start, 0)
	}
	if end < 0 {
		end = max(size+end, 0)
	}
	end = min(end, size-1)
	if reversed || start > end {
		return resp.AppendBulk(b, "")
	}
	return resp.AppendBulk(b, value[start:end+1])
}

func renderDeleted(b []byte, k *call) []byte {
	return renderCount(b, k, func(s *step) bool {
		return s.Op.Kind == register.Write || s.Op.Kind == register.RMW && string(s.result.Value) == "1"
	})
}

func renderPresent(b []byte, k *call) []byte {
	return renderCount(b, k, func(s *step) bool { return s.result.Value.Present() })
}

func renderCount(b []byte, k *call, counts func(*step) bool) []byte {
	n := int64(0)
	for i := range k.steps {
		if counts(&k.steps[i]) {
			n++
		}
	}
	return resp.AppendInt(b, n)
}
