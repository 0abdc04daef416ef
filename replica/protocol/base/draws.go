package base

// Draws is a sequence of pseudo-random numbers (splitmix64), by its state. It begins with the seed that the world lent.
type Draws uint64

// Next is the next number.
func (d *Draws) Next() uint64 {
	*d += 0x9e3779b97f4a7c15
	z := uint64(*d)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Below is the next number, made less than n; 0 if n is.
func (d *Draws) Below(n uint64) uint64 { return d.Next() % max(n, 1) }
