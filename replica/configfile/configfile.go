// Package configfile reads the file that a process is started with.
package configfile

import (
	"fmt"
	"os"

	"sigs.k8s.io/yaml"
)

// Load reads a configuration, in YAML or JSON, in which no field is unknown; has it completed by what is given beside
// the file; and checks it.
func Load[C interface{ Validate() error }](path string, complete func(*C)) (c C, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return c, fmt.Errorf("read configuration: %w", err)
	}
	if err = yaml.UnmarshalStrict(data, &c); err == nil {
		complete(&c)
		err = c.Validate()
	}
	if err != nil {
		err = fmt.Errorf("configuration %s: %w", path, err)
	}
	return c, err
}
