package members

// largest is how many members a change may lead to, where there were not more before.
const largest = 7

// ChangeKinds are what a change does.
func ChangeKinds() []string {
	return []string{"grow", "grow-from-one", "shrink", "swap", "swap-several"}
}

func kindOf(size, join, leave int) string {
	switch {
	case join > leave && size == 1:
		return "grow-from-one"
	case join > leave:
		return "grow"
	case join < leave:
		return "shrink"
	case join > 1:
		return "swap-several"
	}
	return "swap"
}
