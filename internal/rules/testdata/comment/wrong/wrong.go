// This package is described in words that go doc does not index.
package wrong // want
