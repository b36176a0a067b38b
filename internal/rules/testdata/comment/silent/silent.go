package silent // want
