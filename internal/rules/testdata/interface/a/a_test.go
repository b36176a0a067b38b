package a

type fake interface {
	Over
	I()
}
