package compose_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	registerv1 "github.com/georegister/georegister/api/register/v1"
	"github.com/georegister/georegister/client"
	"github.com/georegister/georegister/client/compose"
	"github.com/georegister/georegister/client/regulartest"
	"github.com/georegister/georegister/replica/register"
)

// site is where clients of both clusters are: at the first one, one meets writes that are under way, at the second one
// not yet.
type site struct{ photos, albums *client.Client }

// user is one causal thread, with a session at each cluster.
type user struct{ photos, albums *client.Session }

// user begins a thread. If it is composed, its sessions are services of one process: each operation at one cluster
// begins with the fence that it needs at the other one.
func (s site) user(composed bool) user {
	photos, err := s.photos.NewSession()
	if err != nil {
		log.Fatal(err)
	}
	albums, err := s.albums.NewSession()
	if err != nil {
		log.Fatal(err)
	}
	if composed {
		process := compose.NewProcess()
		if err := errors.Join(photos.Compose(process, "photos"), albums.Compose(process, "albums")); err != nil {
			log.Fatal(err)
		}
	}
	return user{photos, albums}
}

func dial(ctx context.Context, address string) *client.Client {
	c, err := client.Dial(ctx, client.Options{Endpoints: []client.Endpoint{{Address: address}}})
	if err != nil {
		log.Fatal(err)
	}
	return c
}

// Two clusters, whose protocol is GryffRSC, with registers in memory in their place (TestSessionsOfTwoClustersCompose
// runs the protocol): one has the photos, the other one each user's album, which names photos. Charlie's upload is
// under way when Alice finds his photo and puts it into her album, which Bob reads. An album must not name a photo that
// is not there.
func Example_twoClusters() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for _, composed := range []bool{false, true} {
		photos, albums := &regulartest.Cluster{}, &regulartest.Cluster{}
		photosFirst, photosSecond, stopPhotos, err := photos.Serve()
		if err != nil {
			log.Fatal(err)
		}
		albumsFirst, albumsSecond, stopAlbums, err := albums.Serve()
		if err != nil {
			log.Fatal(err)
		}
		first := site{dial(ctx, photosFirst), dial(ctx, albumsFirst)}
		second := site{dial(ctx, photosSecond), dial(ctx, albumsSecond)}

		finish := photos.Begin("sunset", register.Value("...")) // Charlie's upload, which has not returned

		alice := first.user(composed)
		photo, err := alice.photos.Get(ctx, "sunset")
		if err != nil {
			log.Fatal(err)
		}
		if photo.Present() { // so she shares it; if she is composed, the photo is fenced first
			if err := alice.albums.Set(ctx, "alice", []byte("sunset")); err != nil {
				log.Fatal(err)
			}
		}

		bob := second.user(composed)
		name, err := bob.albums.Get(ctx, "alice")
		if err != nil {
			log.Fatal(err)
		}
		if photo, err = bob.photos.Get(ctx, string(name)); err != nil {
			log.Fatal(err)
		}
		fences := len(photos.Requests(registerv1.Kind_FENCE)) + len(albums.Requests(registerv1.Kind_FENCE))
		fmt.Printf("composed %t: the album has %s, which is there: %t; fences: %d\n", composed, name,
			photo.Present(), fences)

		finish()
		for _, c := range []*client.Client{first.photos, first.albums, second.photos, second.albums} {
			if err := c.Close(); err != nil {
				log.Fatal(err)
			}
		}
		stopPhotos()
		stopAlbums()
	}
	// Output:
	// composed false: the album has sunset, which is there: false; fences: 0
	// composed true: the album has sunset, which is there: true; fences: 1
}
