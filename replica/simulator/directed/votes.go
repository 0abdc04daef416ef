package directed

import (
	"strconv"
	"time"

	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/kernel"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

// PromisesForgotten makes a schedule in which a proposer (0) with a slow disk stops before its own promise is
// durable, and another member (1) would have its VOTE by then. The third (2), which heard of nothing, goes on with the
// proposer's next process, which has promised nothing; then it meets the one that would have voted, in the same round
// as they.
func PromisesForgotten(seed uint64) schedule.Schedule {
	const ms = time.Millisecond
	s, draw := Triangle(seed)
	s.Environment.Disks[0] = schedule.Window{Low: 60 * ms, High: 120 * ms}
	Plan(&s, 0, 100*ms, schedule.Call("", register.Append, "x"))
	stop := 125*ms + draw.Between(0, 50*ms)
	next := stop + 12*ms
	Plan(&s, 2, next+10*ms, schedule.Call("", register.Append, "y"))
	meet := next + 450*ms
	for i := range time.Duration(4) {
		Plan(&s, 1, meet+10*ms+i*60*ms, register.Operation{Kind: register.Read})
	}
	end := meet + 400*ms
	s.Faults = []faults.Fault{
		{Kind: faults.Partition, Everywhere: true, At: 90 * ms, For: next - 90*ms, Side: 1 << 2},
		{Kind: faults.Crash, Node: 0, At: stop, For: ms},
		{Kind: faults.Partition, Everywhere: true, At: next, For: meet - next, Side: 1 << 1},
		{Kind: faults.Partition, Everywhere: true, At: meet, For: end - meet, Side: 1 << 0},
	}
	s.Settle = end + 500*ms
	return s
}

// minority makes a schedule in which two of five members (0 and 1) vote for a write whose proposer stops, and another
// member (home) has its round granted by the other three, who did not see that; its VOTE leaves and can't be heard
// until the end. Who counts what is no vote for one reads the write, and then loses it. What happens meanwhile begins
// at the time that it returns.
func minority(seed uint64, home int, lasts time.Duration) (s schedule.Schedule, begin time.Duration) {
	const ms = time.Millisecond
	s, draw := Pentagon(seed)
	Plan(&s, 0, 100*ms, register.Operation{Kind: register.Write, Value: register.Value("one")})
	Plan(&s, home, 140*ms, schedule.Call("", register.Append, "y"))
	cut := 122*ms + draw.Between(0, 8*ms)
	begin = 162*ms + draw.Between(0, 9*ms)
	end := begin + lasts
	Plan(&s, home, end+200*ms, register.Operation{Kind: register.Read})
	s.Faults = []faults.Fault{
		{Kind: faults.Partition, Everywhere: true, At: cut, For: begin - cut, Side: 1<<0 | 1<<1, Rate: 1000},
		{Kind: faults.Crash, Node: 0, At: begin, For: ms},
		{Kind: faults.Partition, Everywhere: true, At: begin, For: end - begin, Side: 1 << home, Rate: 1000},
	}
	s.Settle = end + 300*ms
	return s, begin
}

// VotesCopied makes a schedule in which a minority has voted for a write, and one of the others loses its disk, and copies
// what that minority has voted for.
func VotesCopied(seed uint64) schedule.Schedule {
	const ms = time.Millisecond
	s, begin := minority(seed, 4, 400*ms)
	s.Faults = append(s.Faults, faults.Fault{Kind: faults.Wipe, Node: 2, At: begin, For: ms})
	for i := range time.Duration(6) {
		Plan(&s, 1, begin+100*ms+i*40*ms, register.Operation{Kind: register.Read})
	}
	return s
}

// VotesOfFormers makes a schedule in which a minority has voted for a write, and two members leave: it may be a majority
// of the others then.
func VotesOfFormers(seed uint64) schedule.Schedule {
	const ms = time.Millisecond
	s, begin := minority(seed, 2, 900*ms)
	s.Faults = append(s.Faults, faults.Fault{Kind: faults.Change, Node: 3, At: begin + 5*ms, For: 20 * ms, Leave: 2, Alive: true, Side: 1 << 2})
	for i := range time.Duration(6) {
		Plan(&s, int(i%2), begin+400*ms+i*60*ms, register.Operation{Kind: register.Read})
	}
	return s
}

// OneKeyContended makes a schedule in which all three members read and update one key all the time, and messages
// overtake each other.
func OneKeyContended(seed uint64) schedule.Schedule {
	s, _ := oneKey(seed, schedule.CounterPrefix+"0", func(key string, _ int) register.Operation {
		return schedule.Call(key, register.Add, "1")
	})
	return s
}

// OneKeyWritten is OneKeyContended with writes. In half of them a member is suspected before it could have answered.
func OneKeyWritten(seed uint64) schedule.Schedule {
	s, draw := oneKey(seed, schedule.MixedPrefix+"0", func(key string, n int) register.Operation {
		return register.Operation{Kind: register.Write, Key: key, Value: register.Value(strconv.Itoa(n))}
	})
	if draw.Chance(500) {
		s.Environment.Suspect = s.Environment.Retry / 8
	}
	return s
}

// oneKey makes the schedule of a key, and of what updates it; n counts the updates.
func oneKey(
	seed uint64, key string, update func(key string, n int) register.Operation,
) (schedule.Schedule, kernel.Stream) {
	const ms = time.Millisecond
	s, draw := Triangle(seed)
	s.Faults = []faults.Fault{
		{Kind: faults.Reorder, Everywhere: true, At: 10 * ms, For: 800 * ms, Rate: 200 + draw.Below(600), Size: draw.Between(10*ms, 60*ms)},
		{Kind: faults.Loss, Everywhere: true, At: 10 * ms, For: 800 * ms, Rate: []int{0, 100, 300}[draw.Below(3)]},
	}
	updates := 0
	for home := range 3 {
		for range 2 {
			c := schedule.Plan{Home: home}
			for at := 20*ms + draw.Between(0, 20*ms); at < 800*ms; at += draw.Between(5*ms, 60*ms) {
				op := register.Operation{Kind: register.Read, Key: key}
				if draw.Chance(500) {
					updates++
					op = update(key, updates)
				}
				c.Operations = append(c.Operations, schedule.Planned{At: at, Operation: op})
			}
			s.Clients = append(s.Clients, c)
		}
	}
	s.Settle = 900 * ms
	return s, draw
}
