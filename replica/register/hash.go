package register

// Hash is what a witness knows of a key (FNV-1a, 64 bits): keys that collide cost a rejection. It never changes, since
// witnesses have it on their disks.
func Hash(key []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, b := range key {
		h = (h ^ uint64(b)) * 1099511628211
	}
	return h
}
