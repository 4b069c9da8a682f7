B
Identity:0J0ÄÈú½>oo¿±«»>IW?özd¿ƒ;‚¾EKu?ó+Ú;æþG¿j*?Câ?ºR¿