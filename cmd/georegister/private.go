package main

import "syscall"

// private keeps what the process writes from everybody but its user, such as the files of a disk, which hold clients'
// values.
func private() { syscall.Umask(0o077) }
