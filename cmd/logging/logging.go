// Package logging makes the loggers of the commands.
package logging

import (
	"fmt"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// New logs JSON lines to a file, or to standard error if path is empty.
func New(path, level string) (*zap.Logger, error) {
	config := zap.NewProductionConfig()
	config.EncoderConfig.EncodeTime = zapcore.ISO8601TimeEncoder
	config.DisableStacktrace = true
	config.Sampling = nil
	parsed, err := zap.ParseAtomicLevel(level)
	if err != nil {
		return nil, fmt.Errorf("--log-level %s: use debug, info, warn or error", level)
	}
	config.Level = parsed
	if path != "" {
		config.OutputPaths = []string{path}
	}
	log, err := config.Build()
	if err != nil {
		return nil, fmt.Errorf("--log %s: %w", path, err)
	}
	return log, nil
}
