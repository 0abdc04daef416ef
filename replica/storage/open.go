package storage

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"go.uber.org/zap"

	"github.com/georegister/georegister/replica/durable"
)

const (
	databaseDirectory = "db"
	markFile          = "MARK" // of the latest commit that was reported as durable
	lockFile          = "LOCK"
	// asideDirectory keeps a damaged disk, as far as it can be read by people, until the member votes again.
	asideDirectory = "damaged"
	newSuffix      = ".new" // of that while it is made
)

// errLater is what resume wraps where a later program wrote the disk: it is whole, and not for this one.
var errLater = errors.New("the disk is of a later version")

func (s *Store) path(name string) string {
	return s.options.FileSystem.PathJoin(s.options.Directory, name)
}

func (s *Store) open() (err error) {
	o := &s.options
	if o.Directory == "" {
		s.engine = newMemory(o.Identity.Shards)
		return s.boot()
	}
	if err := durable.MakeDirectory(o.FileSystem, o.Directory); err != nil {
		return err
	}
	if s.lock, err = durable.Lock(o.FileSystem, s.path(lockFile)); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.unlock())
		}
	}()
	known, damage, err := s.recall()
	if err != nil {
		return err
	}
	if o.Durability == Memory {
		if damage != nil {
			s.lose(damage, "")
		} else if known {
			s.record.lose()
		}
		if s.view.Epoch == 0 {
			if err := durable.Remove(o.FileSystem, o.Directory, viewFile); err != nil {
				return err
			}
		}
		s.engine = newMemory(o.Identity.Shards)
	} else if err := s.openDatabase(known, damage); err != nil {
		return err
	}
	if err := s.boot(); err != nil {
		return errors.Join(err, s.engine.close())
	}
	return nil
}

// recall reads the record and the view. Known says that there is a record; damage that one of both, or what a process
// noted while it ran, says that the disk is not what it was.
func (s *Store) recall() (known bool, damage, err error) {
	o := &s.options
	earlier, err := readRecord(o.FileSystem, o.Directory)
	switch {
	case errors.Is(err, durable.ErrDamaged):
		damage = err
	case err != nil:
		return false, nil, err
	case earlier == nil:
		for _, name := range []string{databaseDirectory, markFile} {
			if there, err := durable.Exists(o.FileSystem, s.path(name)); there || err != nil {
				return false, nil, errors.Join(err,
					fmt.Errorf("%w, as far as can be told: there is %s, and no %s that says whose it is; "+
						"move it away, and the member begins with an empty disk", ErrForeign,
						s.path(name), identityFile))
			}
		}
	default:
		if err := earlier.check(o.Identity); err != nil {
			return false, nil, err
		}
		s.record = *earlier
		if earlier.Damage != "" {
			damage = errors.New(earlier.Damage)
		}
		damage = errors.Join(damage, earlier.checkBoot())
	}
	s.view, err = readView(o.FileSystem, o.Directory, o.Identity.Cluster)
	switch {
	case errors.Is(err, durable.ErrDamaged):
		damage = errors.Join(damage, err)
	case err != nil:
		return false, nil, err
	case s.view.Epoch < s.record.Epoch:
		damage = errors.Join(damage, fmt.Errorf("%s is %w: it held a view of epoch %d, and holds one of epoch %d",
			s.path(viewFile), durable.ErrDamaged, s.record.Epoch, s.view.Epoch))
	}
	return earlier != nil, damage, nil
}

// openDatabase goes on with the database, or begins another one.
func (s *Store) openDatabase(known bool, damage error) (err error) {
	o := &s.options
	switch {
	case damage != nil || known && s.record.Boot == 0: // no process came so far as to begin one
	case known && s.record.stateLost():
		o.Logger.Warn("the latest stop was not clean: this member's state counts as lost, and is wiped",
			zap.String("directory", o.Directory), zap.Stringer("durability", s.record.Durability))
		s.record.lose()
	case known && s.record.Commit > 0:
		if err = s.resume(); err == nil {
			return nil
		}
		// the latter noted what the next start does
		if durable.Refused(err) || errors.Is(err, errLater) || s.Err() != nil {
			return err
		}
		damage = err
	}
	if damage != nil {
		if err := s.keep(); err != nil {
			return err
		}
		s.lose(damage, s.path(asideDirectory))
	}
	// From here on the record says that nothing is under this disk's name, whenever this process ends.
	s.record.Durability = o.Durability
	if err := writeRecord(o.FileSystem, o.Directory, &s.record); err != nil {
		return err
	}
	if err := s.clear(); err != nil {
		return err
	}
	return s.create()
}

// lose notes damage: what follows is another disk. Aside is where the damaged one is kept, if it is.
func (s *Store) lose(damage error, aside string) {
	s.record.lose()
	s.record.Loss = &Loss{Cause: strings.Join(strings.Fields(damage.Error()), " "), Aside: aside}
	s.record.Epoch = s.view.Epoch
	s.options.Logger.Error("This member's disk is damaged, and counts as lost: the member joins again on an empty one",
		zap.Error(damage), zap.String("movedTo", aside), zap.String("disk", s.record.Disk))
}

// keep copies aside what says whose disk it was, before that is replaced. What is there already is that of a disk which
// voted.
func (s *Store) keep() error {
	fs, aside := s.options.FileSystem, s.path(asideDirectory)
	if there, err := durable.Exists(fs, aside); there || err != nil {
		return err
	}
	whole := aside // all of these or nothing: the next start takes what is there for all
	aside += newSuffix
	if err := durable.Remove(fs, s.options.Directory, asideDirectory+newSuffix); err != nil {
		return err
	}
	if err := durable.MakeDirectory(fs, aside); err != nil {
		return err
	}
	for _, name := range []string{identityFile, viewFile, markFile} {
		data, err := durable.Read(fs, s.path(name))
		if err == nil && data != nil {
			err = durable.Replace(fs, aside, name, data)
		}
		if err != nil && durable.Refused(err) {
			return err
		}
	}
	if err := fs.Rename(aside, whole); err != nil {
		return err
	}
	return durable.Sync(fs, s.options.Directory)
}

// clear removes a database that is none of this disk's. That of a disk that was set aside is moved there.
func (s *Store) clear() error {
	fs, directory := s.options.FileSystem, s.options.Directory
	path, aside := s.path(databaseDirectory), s.path(asideDirectory)
	if s.record.Loss != nil && s.record.Loss.Aside != "" {
		to := fs.PathJoin(aside, databaseDirectory)
		there, err := durable.Exists(fs, to)
		if err == nil && !there {
			if err = fs.Rename(path, to); errors.Is(err, os.ErrNotExist) {
				err = nil
			}
			err = errors.Join(err, durable.Sync(fs, aside), durable.Sync(fs, directory))
		}
		if err != nil {
			return fmt.Errorf("set the damaged database aside: %w", err)
		}
	}
	err := errors.Join(durable.Remove(fs, directory, databaseDirectory), durable.Remove(fs, directory, markFile))
	if s.view.Epoch == 0 {
		err = errors.Join(err, durable.Remove(fs, directory, viewFile))
	}
	if err != nil {
		return fmt.Errorf("wipe: %w", err)
	}
	return nil
}

// create makes a new database.
func (s *Store) create() error {
	path := s.path(databaseDirectory)
	if err := durable.MakeDirectory(s.options.FileSystem, path); err != nil {
		return err
	}
	err := s.openEngine(durable.Mark{}, func(p *pebble.Options) { p.ErrorIfExists = true }, func(*pebble.DB) error {
		return nil
	})
	if err != nil {
		return err
	}
	// Its first commit comes before the record that tells of one.
	if err := s.begin(); err != nil {
		return errors.Join(err, s.engine.close())
	}
	return nil
}

// openEngine opens the database, checks it, and goes on behind the commit of the mark.
func (s *Store) openEngine(mark durable.Mark, adapt func(*pebble.Options), check func(*pebble.DB) error) error {
	o, seed := &s.options, s.record.seed()
	db, err := openDatabase(s.path(databaseDirectory), o, s.failure, adapt)
	if err != nil {
		return err
	}
	var file *durable.MarkFile
	if err = check(db); err == nil {
		file, err = durable.CreateMark(o.FileSystem, o.Directory, markFile, seed, mark)
	}
	if err != nil {
		return errors.Join(err, db.Close())
	}
	s.engine = newDisk(db, o, s.failure, seed, mark.Number, file, s.observe)
	return nil
}

// resume opens the database of an earlier start. An error other than one of the machine says that it is not what it
// was.
func (s *Store) resume() error {
	o, r := &s.options, &s.record
	path := s.path(databaseDirectory)
	if there, err := durable.Exists(o.FileSystem, path); !there || err != nil {
		return errors.Join(err, fmt.Errorf("%s is missing", path))
	}
	noted, err := durable.ReadMark(o.FileSystem, o.Directory, markFile, r.seed())
	if err != nil {
		return err
	}
	if err := checkFormat(o.FileSystem, path); err != nil {
		return fmt.Errorf("%w: %w", errLater, err)
	}
	held, err := markInTables(path, o, r.seed())
	if err != nil {
		return err
	}
	latest, err := checkLogs(o.FileSystem, path, held.Number, r.seed())
	if err != nil {
		return err
	}
	if want := max(noted.Number, r.Commit); latest < want {
		return fmt.Errorf("the database is %w: it ends with commit %d, and commit %d was durable", durable.ErrDamaged,
			latest, want)
	}
	mark := durable.Mark{Boot: r.Boot, Number: latest}
	return s.openEngine(mark, func(*pebble.Options) {}, func(db *pebble.DB) error {
		found, err := readMark(db, r.seed())
		switch {
		case err != nil:
			return err
		case found.Number != latest:
			return fmt.Errorf("the database is %w: it recovered to commit %d, and its files hold commit %d",
				durable.ErrDamaged, found.Number, latest)
		case max(found.Boot, noted.Boot) > r.Boot:
			return fmt.Errorf("%s is %w: it counts %d starts, and the database %d", s.path(identityFile),
				durable.ErrDamaged, r.Boot, max(found.Boot, noted.Boot))
		}
		return nil
	})
}

// noteDamage has the next start take the disk for lost. A disk that refuses even this is found damaged again, or has no
// one to believe it.
func (s *Store) noteDamage(damage error) {
	if s.options.Directory == "" {
		return
	}
	if err := s.note(func(r *record) { r.Damage = damage.Error() }); err != nil {
		s.options.Logger.Error("That the disk is damaged could not be noted", zap.Error(err))
	}
}

// Loss is the latest damage that cost this member its disk; nil: there was none.
func (s *Store) Loss() *Loss { return s.now().Loss }

// Recovered says that the member votes again, so that nobody needs what was set aside of a damaged disk.
func (s *Store) Recovered() error {
	loss := s.Loss()
	if loss == nil || loss.Over {
		return nil
	}
	if err := durable.Remove(s.options.FileSystem, s.options.Directory, asideDirectory); err != nil {
		return fmt.Errorf("storage %s: remove the damaged disk: %w", s.options.Directory, err)
	}
	return s.note(func(r *record) { r.Loss = &Loss{Cause: loss.Cause, Over: true} })
}
