package workload

import (
	"math"
	"math/rand/v2"
)

// zipf draws from 1..n in proportion to 1/i^theta, by rejection-inversion (W. Hörmann and G. Derflinger,
// "Rejection-inversion to generate variates from monotone discrete distributions", 1996). It takes the same
// time and memory for any n. The generator of math/rand needs theta > 1, which leaves out the usual 0.99.
type zipf struct {
	n, theta float64
	low      float64 // the area left of the first bar, by which it is drawn without rejection
	high     float64 // the area up to the end of the last bar
	accept   float64 // a point so close below its integer is never rejected
}

func newZipf(n int, theta float64) zipf {
	z := zipf{n: float64(n), theta: theta}
	z.low = z.area(1.5) - 1
	z.high = z.area(z.n + 0.5)
	z.accept = 2 - z.inverse(z.area(2.5)-z.height(2))
	return z
}

// draw takes about one draw of rng on average.
func (z zipf) draw(rng *rand.Rand) int {
	for {
		u := z.high + rng.Float64()*(z.low-z.high)
		x := z.inverse(u)
		k := min(max(math.Round(x), 1), z.n)
		if k-x <= z.accept || u >= z.area(k+0.5)-z.height(k) {
			return int(k)
		}
	}
}

// height is the unnormalised probability 1/x^theta.
func (z zipf) height(x float64) float64 { return math.Exp(-z.theta * math.Log(x)) }

// area is the integral of height from 1 to x.
func (z zipf) area(x float64) float64 {
	logX := math.Log(x)
	return ratio(math.Expm1, (1-z.theta)*logX) * logX
}

// inverse is the x of an area.
func (z zipf) inverse(area float64) float64 {
	// Rounding may lead below -1, where the logarithm ends.
	return math.Exp(ratio(math.Log1p, max((1-z.theta)*area, -1)) * area)
}

// ratio is f(x)/x for an f like x near 0, where theta is 1.
func ratio(f func(float64) float64, x float64) float64 {
	if math.Abs(x) < 1e-8 {
		return 1
	}
	return f(x) / x
}
