package a

type Full interface {
	A()
	B()
	C()
	D()
	E()
	F()
	G()
}

type Over interface { // want
	Full
	H()
}

type Pending interface {
	Over
	I()
}
