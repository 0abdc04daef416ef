package console

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/georegister/georegister/dev/record"
)

// controlFile, in the data directory, tells other shells of the same user where to send commands. The token
// in it keeps other users of the machine out.
const controlFile = "control.json"

// closeWithin bounds how long the commands under way may take at the end.
const closeWithin = 10 * time.Second

// maxCommand bounds a command's bytes.
const maxCommand = 1 << 10

type controlRecord struct {
	Address string `json:"address"`
	Token   string `json:"token"`
}

// control takes commands from other shells, over HTTP on the loopback interface: unix sockets have short
// paths, data directories may not.
type control struct {
	server *http.Server
	files  []string        // to remove at the end
	ending context.Context // ends when changes are not followed any more
	end    func()
}

// failure is the trailer that tells the error which a command ended with after it had begun to answer.
const failure = "Georegister-Failure"

// serveControl starts to take commands for a console. Quit is called when one says so.
func serveControl(data string, console *Console, quit func()) (*control, error) {
	listener, err := net.Listen("tcp", record.Loopback(0))
	if err != nil {
		return nil, fmt.Errorf("listen for commands: %w", err)
	}
	address := controlRecord{Address: listener.Addr().String(), Token: rand.Text()}
	content, err := json.Marshal(address)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("encode the control file: %w", err), listener.Close())
	}
	path := filepath.Join(data, controlFile)
	if err := record.Replace(path, content); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	c := &control{files: []string{path}}
	c.ending, c.end = context.WithCancel(context.Background())
	handler := func(w http.ResponseWriter, r *http.Request) { c.answer(w, r, address.Token, console, quit) }
	c.server = &http.Server{ReadHeaderTimeout: 5 * time.Second, Handler: http.HandlerFunc(handler)}
	if registry, err := registryDirectory(); err == nil { // else other shells need --data
		entry := filepath.Join(registry, strconv.Itoa(os.Getpid()))
		if absolute, err := filepath.Abs(data); err == nil && record.Replace(entry, []byte(absolute)) == nil {
			c.files = append(c.files, entry)
		}
	}
	go func() { _ = c.server.Serve(listener) }() // ends with close
	return c, nil
}

func (c *control) answer(w http.ResponseWriter, r *http.Request, token string, console *Console, quit func()) {
	if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte("Bearer "+token)) != 1 {
		http.Error(w, "wrong token", http.StatusForbidden)
		return
	}
	line, err := io.ReadAll(io.LimitReader(r.Body, maxCommand))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	text, err := console.Execute(r.Context(), string(line))
	if err != nil && !errors.Is(err, ErrQuit) {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Trailer", failure)
	_, _ = io.WriteString(w, text) // the shell may be gone
	if errors.Is(err, ErrQuit) {
		quit()
		return
	}
	if err := c.follow(w, r, console, string(line)); err != nil {
		w.Header().Set(failure, err.Error())
	}
}

// follow answers on with how a change is going, line by line.
func (c *control) follow(w http.ResponseWriter, r *http.Request, console *Console, line string) error {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	defer context.AfterFunc(c.ending, func() { cancel(errors.New("this cluster is stopping")) })()
	flusher := http.NewResponseController(w)
	_ = flusher.Flush()
	return console.Follow(ctx, line, func(text string) {
		_, _ = io.WriteString(w, "\n"+text)
		_ = flusher.Flush()
	})
}

// close stops taking commands; those under way are answered first.
func (c *control) close() error {
	c.end()
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	err := c.server.Shutdown(ctx)
	for _, path := range c.files {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// registryDirectory lists the running clusters of this user: a file per process that names its data directory.
func registryDirectory() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the user's cache directory: %w", err)
	}
	path := filepath.Join(cache, "georegister", "dev")
	if err := os.MkdirAll(path, 0o700); err != nil {
		return "", fmt.Errorf("make the list of running clusters: %w", err)
	}
	return path, nil
}

// Send has a command carried out by the cluster that runs in a data directory; empty: by the only one that
// this user runs. It writes the answer as it comes; a change of members is followed until it is over.
func Send(ctx context.Context, data, line string, answer io.Writer) error {
	if data == "" {
		var err error
		if data, err = onlyRunning(ctx); err != nil {
			return err
		}
	}
	control, err := readControl(data)
	if err != nil {
		return err
	}
	return control.send(ctx, line, answer)
}

func readControl(data string) (r controlRecord, err error) {
	content, err := os.ReadFile(filepath.Join(data, controlFile))
	if errors.Is(err, os.ErrNotExist) {
		return r, fmt.Errorf("no cluster runs in %s", data)
	}
	if err == nil {
		err = json.Unmarshal(content, &r)
	}
	if err != nil {
		return r, fmt.Errorf("read %s: %w", filepath.Join(data, controlFile), err)
	}
	return r, nil
}

func (r controlRecord) send(ctx context.Context, line string, answer io.Writer) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+r.Address+"/",
		bytes.NewBufferString(line))
	if err != nil {
		return fmt.Errorf("send a command to %s: %w", r.Address, err)
	}
	request.Header.Set("Authorization", "Bearer "+r.Token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("the cluster does not answer, perhaps it was killed: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, err := io.ReadAll(response.Body)
		return errors.Join(errors.New(strings.TrimSpace(string(text))), err)
	}
	if _, err := io.Copy(answer, response.Body); err != nil {
		return fmt.Errorf("read the cluster's answer: %w", err)
	}
	if text := response.Trailer.Get(failure); text != "" {
		return errors.New(text)
	}
	return nil
}

// alive reports whether a cluster answers in a data directory.
func alive(ctx context.Context, data string) bool {
	control, err := readControl(data)
	return err == nil && control.send(ctx, "", io.Discard) == nil
}

func onlyRunning(ctx context.Context) (string, error) {
	registry, err := registryDirectory()
	if err != nil {
		return "", fmt.Errorf("%w; name the cluster's data directory with --data", err)
	}
	entries, err := os.ReadDir(registry)
	if err != nil {
		return "", fmt.Errorf("list the running clusters: %w", err)
	}
	var running []string
	for _, e := range entries {
		path := filepath.Join(registry, e.Name())
		data, err := os.ReadFile(path)
		if err != nil {
			continue // it ended just now
		}
		if alive(ctx, string(data)) {
			running = append(running, string(data))
		} else {
			_ = os.Remove(path) // its process was killed
		}
	}
	switch len(running) {
	case 0:
		return "", errors.New("no cluster runs; start one with `georegister dev -f MANIFEST`")
	case 1:
		return running[0], nil
	}
	return "", fmt.Errorf("several clusters run; pick one with --data: %s", strings.Join(running, ", "))
}
